"""The studies of a storage at a glance: a few queries, whatever the number of runs in them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from damoos.store import tables

# The words of a study that a list tells of.
_WORDS = ("damoos", "created", "config", "result")


@dataclass(frozen=True)
class Listed:
    """A study in a list.

    Parameters
    ----------
    name : str
    schema : int
        Of the damoos that wrote it.
    created : str
        ISO 8601, UTC.
    config : dict
        What `Store.create` was given.
    result : dict or None
        None while it is unfinished.
    nr_done : int
        Trials that have finished, or runs of configurations.
    """

    name: str
    schema: int
    created: str
    config: dict[str, Any]
    result: dict[str, Any] | None
    nr_done: int


def listed(engine: sa.Engine) -> tuple[list[Listed], list[str]]:
    """The studies that damoos has made, oldest first, and the names of those that cannot be read."""
    words: dict[int, dict[str, str]] = {}
    user, studies = tables.STUDY_USER, tables.STUDIES
    with engine.connect() as connection:
        names = {row.study_id: row.study_name for row in connection.execute(sa.select(studies))}
        wanted = sa.select(user.c.study_id, user.c.key, user.c.value_json).where(user.c.key.in_(_WORDS))
        for row in connection.execute(wanted):
            words.setdefault(row.study_id, {})[row.key] = row.value_json
        done = _counts(connection, tables.TRIALS.c.study_id, sa.true())
        configs = _counts(connection, user.c.study_id, user.c.key.like("run:config-%"))
    found, broken = [], []
    for key, said in words.items():
        if "damoos" not in said:  # half made, or somebody else's
            continue
        try:
            fields = {name: json.loads(text) for name, text in said.items()}
            nr_done = done.get(key, 0) + configs.get(key, 0)
            words_of = (fields["damoos"], fields["created"], fields["config"], fields.get("result"))
            found.append(Listed(names[key], *words_of, nr_done))
        except (ValueError, KeyError):
            broken.append(names.get(key, f"number {key}"))
    return sorted(found, key=lambda study: study.created), broken


def _counts(connection: sa.Connection, study_id: Any, condition: Any) -> dict[int, int]:
    """Rows of each study."""
    counted = sa.select(study_id, sa.func.count()).where(condition).group_by(study_id)
    return {row[0]: row[1] for row in connection.execute(counted)}
