"""What damoos inserts is what Optuna's own calls would have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.distributions import IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from damoos.store.inserts import insert_trial, insert_word

STATES = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def trial_of(state: TrialState, number: int) -> FrozenTrial:
    return create_trial(
        state=state,
        value=0.25 + number if state is TrialState.COMPLETE else None,
        params={"min_age_us": 100_000 * number, "quota_sz_bytes": 4096},
        distributions={
            "min_age_us": IntDistribution(0, 60_000_000, step=100_000),
            "quota_sz_bytes": IntDistribution(4096, 1 << 30, step=4096),
        },
        user_attrs={"run": {"number": number, "metrics": {"runtime_s": 1.5}}, "margins": {"slowdown<=0.1": -0.5}},
        system_attrs={"constraints": [-0.5 if state is TrialState.COMPLETE else 0.5]},
    )


@pytest.fixture
def storage(tmp_path: Path) -> optuna.storages.RDBStorage:
    return optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'optuna.sqlite'}")


def fields(trial: FrozenTrial) -> dict[str, Any]:
    """All of a trial but its key in the database and its times."""
    return {name: value for name, value in vars(trial).items() if "datetime" not in name and name != "_trial_id"}


def test_trials_are_read_back_as_optuna_writes_them(storage: optuna.storages.RDBStorage) -> None:
    theirs = optuna.create_study(storage=storage, study_name="theirs", direction="maximize")
    ours = optuna.create_study(storage=storage, study_name="ours", direction="maximize")
    ours_id = storage.get_study_id_from_name("ours")
    for number, state in enumerate(STATES):
        theirs.add_trial(trial_of(state, number))
        insert_trial(storage.engine, ours_id, trial_of(state, number))
    found = ours.get_trials()
    assert [fields(trial) for trial in found] == [fields(trial) for trial in theirs.get_trials()]
    for trial, other in zip(found, theirs.get_trials(), strict=True):
        assert trial.datetime_start
        assert other.datetime_start
        assert abs((trial.datetime_start - other.datetime_start).total_seconds()) < 60
        assert trial.datetime_start == trial.datetime_complete
    assert ours.best_trial.number == theirs.best_trial.number == 0
    # Optuna's own calls go on behind them.
    ours.add_trial(trial_of(TrialState.COMPLETE, 9))
    assert [trial.number for trial in ours.trials] == [0, 1, 2, 3]


def test_a_word_is_read_back(storage: optuna.storages.RDBStorage) -> None:
    study = optuna.create_study(storage=storage, study_name="ours")
    insert_word(storage.engine, storage.get_study_id_from_name("ours"), "run:baseline-000", {"a": [1, None, "x"]})
    assert study.user_attrs == {"run:baseline-000": {"a": [1, None, "x"]}}
    study.set_user_attr("run:baseline-000", 2)
    assert study.user_attrs == {"run:baseline-000": 2}
