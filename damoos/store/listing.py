"""The studies of a storage at a glance: a few queries, whatever the number of runs in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from damoos.common.unpack import parsed
from damoos.store import sizes, tables
from damoos.store.artifacts import is_study_name

# The words of a study that a list tells of.
_WORDS = ("damoos", "created", "config", "result")
# What the values of one may take in memory: many times what the largest does.
_OBJECT_BYTES = 8 << 20


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
    user, studies = tables.STUDY_USER, tables.STUDIES
    with engine.connect() as connection:
        names = {row.study_id: row.study_name for row in connection.execute(sa.select(studies))}
        words = _words(connection, list(names))
        done = _counts(connection, tables.TRIALS.c.study_id, sa.true())
        configs = _counts(connection, user.c.study_id, user.c.key.like("run:config-%"))
    found, broken = [], []
    for key, said in words.items():
        if said is not None and "damoos" not in said:  # half made, or somebody else's
            continue
        try:
            found.append(_study(names[key], said or {}, done.get(key, 0) + configs.get(key, 0)))
        except (ValueError, KeyError, TypeError):
            broken.append(str(names.get(key, f"number {key}")))
    return sorted(found, key=lambda study: study.created), broken


def _words(connection: sa.Connection, studies: list[int]) -> dict[int, dict[str, str] | None]:
    """The words of all studies by their numbers; None for a study that has one which the database refuses to give."""
    large = sizes.too_large(connection, _WORDS)
    refused: dict[int, dict[str, str] | None] = dict.fromkeys(large)
    return _words_taken(connection, [study for study in studies if study not in large], large) | refused


def _words_taken(connection: sa.Connection, studies: list[int], without: set[int]) -> dict[int, dict[str, str] | None]:
    """The words of all studies but some, also of studies that are not there; see `_words`."""
    try:
        return _words_of(connection, tables.STUDY_USER.c.study_id.not_in(without))
    except sa.exc.DataError:
        words: dict[int, dict[str, str] | None] = {}
        for study in studies:
            try:
                words |= _words_of(connection, tables.STUDY_USER.c.study_id == study)
            except sa.exc.DataError:
                words[study] = None
        return words


def _words_of(connection: sa.Connection, condition: sa.ColumnElement[bool]) -> dict[int, dict[str, str] | None]:
    user, words = tables.STUDY_USER, dict[int, dict[str, str] | None]()
    wanted = sa.select(user.c.study_id, user.c.key, user.c.value_json).where(user.c.key.in_(_WORDS), condition)
    for row in connection.execute(wanted):
        said = words.setdefault(row.study_id, {})
        assert said is not None
        said[row.key] = row.value_json
    return words


def _study(name: object, said: dict[str, str], nr_done: int) -> Listed:
    """A study of these words.

    Raises
    ------
    ValueError, KeyError, TypeError : one of them is missing, is no JSON, or has another type
    """
    words = {key: parsed(text, _OBJECT_BYTES) for key, text in said.items()}
    study = Listed(name, words["damoos"], words["created"], words["config"], words.get("result"), nr_done)  # type: ignore[arg-type]
    types = (
        (study.name, str), (study.schema, int), (study.created, str), (study.config, dict),
        (study.result, (dict, type(None))),
    )  # fmt: skip
    if not all(isinstance(value, kind) for value, kind in types):  # type: ignore[arg-type]
        raise TypeError("a word of the study has another type")
    if not is_study_name(study.name):
        raise ValueError("its name is that of no study's folder")
    return study


def _counts(connection: sa.Connection, study_id: Any, condition: Any) -> dict[int, int]:
    """Rows of each study."""
    counted = sa.select(study_id, sa.func.count()).where(condition).group_by(study_id)
    return {row[0]: row[1] for row in connection.execute(counted)}


def all_names(engine: sa.Engine) -> list[str]:
    """Names of all studies, also of those that are not damoos's."""
    with engine.connect() as connection:
        return list(connection.scalars(sa.select(tables.STUDIES.c.study_name)))


def delete_words(engine: sa.Engine, study: int) -> None:
    """Delete the words of a study and of its trials, without reading them."""
    trials = sa.select(tables.TRIALS.c.trial_id).where(tables.TRIALS.c.study_id == study)
    with engine.begin() as connection:
        for table in (tables.USER, tables.SYSTEM):
            connection.execute(sa.delete(table).where(table.c.trial_id.in_(trials)))
        connection.execute(sa.delete(tables.STUDY_USER).where(tables.STUDY_USER.c.study_id == study))
