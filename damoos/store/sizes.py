"""Sizes of values in a database, asked before one is taken: a server would send a gigabyte that the client must hold.

SQLite has a limit for it, which each connection sets; PostgreSQL has none.
"""

from __future__ import annotations

import sqlalchemy as sa

from damoos.errors import StoreError
from damoos.store import tables
from damoos.store.sqlite_file import MOST_BYTES

# What all values of a study may have: a study of ten thousand runs has a tenth of it.
MOST_STUDY_BYTES = 256 << 20


def too_large(connection: sa.Connection, keys: tuple[str, ...]) -> set[int]:
    """Numbers of the studies one of whose words of these keys is longer than any that damoos writes."""
    if connection.dialect.name != "postgresql":
        return set()
    user = tables.STUDY_USER
    length = sa.func.octet_length(user.c.value_json)
    return set(connection.scalars(sa.select(user.c.study_id).where(user.c.key.in_(keys), length > MOST_BYTES)))


def check_study(engine: sa.Engine, name: str) -> None:
    """Refuse a study with a value, or with values, that are larger than any that damoos writes.

    Raises
    ------
    StoreError
    """
    if engine.dialect.name != "postgresql":
        return
    study = sa.select(tables.STUDIES.c.study_id).where(tables.STUDIES.c.study_name == name)
    trials = sa.select(tables.TRIALS.c.trial_id).where(tables.TRIALS.c.study_id.in_(study))
    values = [(table.c.value_json, table.c.study_id.in_(study)) for table in (tables.STUDY_USER, tables.STUDY_SYSTEM)]
    values += [(table.c.value_json, table.c.trial_id.in_(trials)) for table in (tables.USER, tables.SYSTEM)]
    values += [(tables.PARAMS.c.distribution_json, tables.PARAMS.c.trial_id.in_(trials))]
    total = 0
    with engine.connect() as connection:
        for value, condition in values:
            length = sa.func.octet_length(value)
            largest, of_all = connection.execute(
                sa.select(sa.func.max(length), sa.func.sum(length)).where(condition)
            ).one()
            total += int(of_all or 0)
            if (largest or 0) > MOST_BYTES or total > MOST_STUDY_BYTES:
                raise StoreError(f"study '{name}' cannot be read: its values are longer than any that damoos writes")
