"""Finished runs written into Optuna's tables, each in one short transaction.

Optuna's own calls go through its object mapper and look every row up before they write it, because several processes
may work on one trial. A study of damoos has one writer, and a run that is stored is finished. So plain inserts write
the same rows, in a quarter of the time. The test tests/unit/store/test_inserts.py compares what is read back with what
Optuna's own calls write.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from damoos.store import tables

if TYPE_CHECKING:
    import optuna


def insert_trial(engine: sa.Engine, study_id: int, trial: optuna.trial.FrozenTrial) -> None:
    """Write a finished trial, whose value is finite or missing; its number is the next one of the study."""
    from optuna.distributions import distribution_to_json

    assert trial.value is None or math.isfinite(trial.value)
    trials = tables.TRIALS
    number = sa.select(sa.func.count()).select_from(trials).where(trials.c.study_id == study_id).scalar_subquery()
    now = datetime.now(UTC).replace(tzinfo=None)
    row = {"number": number, "study_id": study_id, "state": trial.state.name}
    with engine.begin() as connection:
        made = connection.execute(trials.insert().values(**row, datetime_start=now, datetime_complete=now))
        assert made.inserted_primary_key
        trial_id = made.inserted_primary_key[0]
        if trial.value is not None:
            value = {"trial_id": trial_id, "objective": 0, "value": trial.value, "value_type": "FINITE"}
            connection.execute(tables.VALUES.insert(), value)
        params = [
            {
                "trial_id": trial_id, "param_name": name, "distribution_json": distribution_to_json(distribution),
                "param_value": distribution.to_internal_repr(trial.params[name]),
            }
            for name, distribution in trial.distributions.items()
        ]  # fmt: skip
        if params:
            connection.execute(tables.PARAMS.insert(), params)
        for table, words in ((tables.USER, trial.user_attrs), (tables.SYSTEM, trial.system_attrs)):
            if words:
                rows = [{"trial_id": trial_id, "key": key, "value_json": json.dumps(words[key])} for key in words]
                connection.execute(table.insert(), rows)


def insert_word(engine: sa.Engine, study_id: int, name: str, value: Any) -> None:
    """Write a user attribute that the study does not have yet."""
    with engine.begin() as connection:
        word = {"study_id": study_id, "key": name, "value_json": json.dumps(value)}
        connection.execute(tables.STUDY_USER.insert(), word)
