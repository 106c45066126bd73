"""Finished runs written into Optuna's tables, each in one short transaction.

Optuna's own calls go through its object mapper and look every row up before they write it, because several processes
may work on one trial. A study of damoos has one writer, and a run that is stored is finished. So plain inserts write
the same rows, in a quarter of the time. The tables are those of Optuna 5. The test tests/unit/store/test_inserts.py
compares what is read back with what Optuna's own calls write.
"""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    import optuna

_META = sa.MetaData()
_TRIALS = sa.Table(
    "trials", _META,
    sa.Column("trial_id", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer),
    sa.Column("study_id", sa.Integer),
    sa.Column("state", sa.Enum("COMPLETE", "PRUNED", "FAIL", name="trialstate")),
    sa.Column("datetime_start", sa.DateTime),
    sa.Column("datetime_complete", sa.DateTime),
)  # fmt: skip
_VALUES = sa.Table(
    "trial_values", _META,
    sa.Column("trial_value_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer),
    sa.Column("objective", sa.Integer),
    sa.Column("value", sa.Float),
    sa.Column("value_type", sa.Enum("FINITE", name="trialvaluetype")),
)  # fmt: skip
_PARAMS = sa.Table(
    "trial_params", _META,
    sa.Column("param_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer),
    sa.Column("param_name", sa.String),
    sa.Column("param_value", sa.Float),
    sa.Column("distribution_json", sa.Text),
)  # fmt: skip


def _attributes(owner: str, kind: str) -> sa.Table:
    return sa.Table(
        f"{owner}_{kind}_attributes", _META,
        sa.Column(f"{owner}_{kind}_attribute_id", sa.Integer, primary_key=True),
        sa.Column(f"{owner}_id", sa.Integer),
        sa.Column("key", sa.String),
        sa.Column("value_json", sa.Text),
    )  # fmt: skip


_USER, _SYSTEM = _attributes("trial", "user"), _attributes("trial", "system")
_STUDY_USER = _attributes("study", "user")


def insert_trial(engine: sa.Engine, study_id: int, trial: optuna.trial.FrozenTrial) -> None:
    """Write a finished trial, whose value is finite or missing; its number is the next one of the study."""
    from optuna.distributions import distribution_to_json

    assert trial.value is None or math.isfinite(trial.value)
    number = sa.select(sa.func.count()).select_from(_TRIALS).where(_TRIALS.c.study_id == study_id).scalar_subquery()
    now = datetime.now(UTC).replace(tzinfo=None)
    row = {"number": number, "study_id": study_id, "state": trial.state.name}
    with engine.begin() as connection:
        made = connection.execute(_TRIALS.insert().values(**row, datetime_start=now, datetime_complete=now))
        assert made.inserted_primary_key
        trial_id = made.inserted_primary_key[0]
        if trial.value is not None:
            value = {"trial_id": trial_id, "objective": 0, "value": trial.value, "value_type": "FINITE"}
            connection.execute(_VALUES.insert(), value)
        params = [
            {
                "trial_id": trial_id, "param_name": name, "distribution_json": distribution_to_json(distribution),
                "param_value": distribution.to_internal_repr(trial.params[name]),
            }
            for name, distribution in trial.distributions.items()
        ]  # fmt: skip
        if params:
            connection.execute(_PARAMS.insert(), params)
        for table, words in ((_USER, trial.user_attrs), (_SYSTEM, trial.system_attrs)):
            if words:
                rows = [{"trial_id": trial_id, "key": key, "value_json": json.dumps(words[key])} for key in words]
                connection.execute(table.insert(), rows)


def insert_word(engine: sa.Engine, study_id: int, name: str, value: Any) -> None:
    """Write a user attribute that the study does not have yet."""
    with engine.begin() as connection:
        connection.execute(_STUDY_USER.insert(), {"study_id": study_id, "key": name, "value_json": json.dumps(value)})
