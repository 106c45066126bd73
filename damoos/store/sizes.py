"""Numbers of rows and sizes of values in a database, asked before they are taken: they would fill the memory.

SQLite has a limit for a value, which each connection sets; PostgreSQL has none.
"""

from __future__ import annotations

import sqlalchemy as sa

from damoos.errors import StoreError
from damoos.store import tables
from damoos.store.sqlite_file import MOST_BYTES
from damoos.words.studies import MOST_TRIALS

# What all values of a study may have: a study of ten thousand runs has a tenth of it.
MOST_STUDY_BYTES = 256 << 20
# What a study may have of each table but that of trials: a run has some ten rows of them.
MOST_ROWS = 20 * MOST_TRIALS
# A query for numbers of studies or trials.
Numbers = sa.Select[tuple[int]]


def too_large(connection: sa.Connection, keys: tuple[str, ...]) -> set[int]:
    """Numbers of the studies one of whose words of these keys is longer than any that damoos writes."""
    if connection.dialect.name != "postgresql":
        return set()
    user = tables.STUDY_USER
    length = sa.func.octet_length(user.c.value_json)
    return set(connection.scalars(sa.select(user.c.study_id).where(user.c.key.in_(keys), length > MOST_BYTES)))


def check_study(engine: sa.Engine, name: str) -> None:
    """Refuse a study with more trials, more rows of a trial, or larger values than any that damoos writes.

    Raises
    ------
    StoreError
    """
    study = sa.select(tables.STUDIES.c.study_id).where(tables.STUDIES.c.study_name == name)
    trials = sa.select(tables.TRIALS.c.trial_id).where(tables.TRIALS.c.study_id.in_(study))
    with engine.connect() as connection:
        _check_rows(connection, name, study, trials)
        if engine.dialect.name == "postgresql":
            _check_values(connection, name, study, trials)


def _check_rows(connection: sa.Connection, name: str, study: Numbers, trials: Numbers) -> None:
    rows = [(tables.TRIALS.c.study_id, study, MOST_TRIALS)]
    rows += [(table.c.study_id, study, MOST_ROWS) for table in (tables.STUDY_USER, tables.STUDY_SYSTEM)]
    of_trials = (tables.USER, tables.SYSTEM, tables.PARAMS, tables.VALUES, tables.INTERMEDIATE_VALUES)
    rows += [(table.c.trial_id, trials, MOST_ROWS) for table in of_trials]
    for column, wanted, most in rows:
        some = sa.select(column).where(column.in_(wanted)).limit(most + 1).subquery()
        if connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one() > most:
            raise StoreError(f"study '{name}' cannot be read: it has more than {most} rows of {column.table.name}")


def _check_values(connection: sa.Connection, name: str, study: Numbers, trials: Numbers) -> None:
    values = [(table.c.value_json, table.c.study_id.in_(study)) for table in (tables.STUDY_USER, tables.STUDY_SYSTEM)]
    values += [(table.c.value_json, table.c.trial_id.in_(trials)) for table in (tables.USER, tables.SYSTEM)]
    values += [(tables.PARAMS.c.distribution_json, tables.PARAMS.c.trial_id.in_(trials))]
    total = 0
    for value, condition in values:
        length = sa.func.octet_length(value)
        largest, of_all = connection.execute(sa.select(sa.func.max(length), sa.func.sum(length)).where(condition)).one()
        total += int(of_all or 0)
        if (largest or 0) > MOST_BYTES or total > MOST_STUDY_BYTES:
            raise StoreError(f"study '{name}' cannot be read: its values are longer than any that damoos writes")
