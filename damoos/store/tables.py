"""Optuna's tables, as far as damoos reads and writes them by itself: those of Optuna 5."""

from __future__ import annotations

import sqlalchemy as sa

META = sa.MetaData()
STUDIES = sa.Table(
    "studies", META,
    sa.Column("study_id", sa.Integer, primary_key=True),
    sa.Column("study_name", sa.String),
)  # fmt: skip
TRIALS = sa.Table(
    "trials", META,
    sa.Column("trial_id", sa.Integer, primary_key=True),
    sa.Column("number", sa.Integer),
    sa.Column("study_id", sa.Integer),
    sa.Column("state", sa.Enum("COMPLETE", "PRUNED", "FAIL", name="trialstate")),
    sa.Column("datetime_start", sa.DateTime),
    sa.Column("datetime_complete", sa.DateTime),
)  # fmt: skip
VALUES = sa.Table(
    "trial_values", META,
    sa.Column("trial_value_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer),
    sa.Column("objective", sa.Integer),
    sa.Column("value", sa.Float),
    sa.Column("value_type", sa.Enum("FINITE", name="trialvaluetype")),
)  # fmt: skip
INTERMEDIATE_VALUES = sa.Table(
    "trial_intermediate_values", META,
    sa.Column("trial_intermediate_value_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer),
)  # fmt: skip
PARAMS = sa.Table(
    "trial_params", META,
    sa.Column("param_id", sa.Integer, primary_key=True),
    sa.Column("trial_id", sa.Integer),
    sa.Column("param_name", sa.String),
    sa.Column("param_value", sa.Float),
    sa.Column("distribution_json", sa.Text),
)  # fmt: skip


def _attributes(owner: str, kind: str) -> sa.Table:
    return sa.Table(
        f"{owner}_{kind}_attributes", META,
        sa.Column(f"{owner}_{kind}_attribute_id", sa.Integer, primary_key=True),
        sa.Column(f"{owner}_id", sa.Integer),
        sa.Column("key", sa.String),
        sa.Column("value_json", sa.Text),
    )  # fmt: skip


USER, SYSTEM = _attributes("trial", "user"), _attributes("trial", "system")
STUDY_USER, STUDY_SYSTEM = _attributes("study", "user"), _attributes("study", "system")
