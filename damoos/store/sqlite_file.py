"""Connections to SQLite files that may be another person's: data is read from them, and nothing in them is computed.

A view, a trigger or a generated column is a program of the file's author. It can run for ever or give gigabytes.
"""

from __future__ import annotations

import sqlite3
from typing import Any

from damoos.common.unpack import objects_bytes

# What a value may have, and what the values within its JSON may take in memory: many times what the largest does.
MOST_BYTES = 16 << 20
MOST_OBJECT_BYTES = 32 << 20
# Shorter ones need no look.
_SHORT_BYTES = 64 << 10
REFUSED = "that Optuna does not make"
# Kinds by the first words of their SQL; an index that SQLite makes by itself has none.
_OTHER_OBJECTS = """
    SELECT type, name FROM sqlite_master WHERE NOT (
        sql IS NULL AND type = 'index'
        OR type = 'table' AND sql LIKE 'CREATE TABLE %'
        OR type = 'index' AND (sql LIKE 'CREATE INDEX %' OR sql LIKE 'CREATE UNIQUE INDEX %')
    ) LIMIT 1
"""
# Hidden ones are generated. A default stands for a value of each row that was written before it.
_OTHER_COLUMNS = """
    SELECT 'column', c.name FROM sqlite_master AS m, pragma_table_xinfo(m.name) AS c
    WHERE m.type = 'table' AND (c.hidden OR c.dflt_value IS NOT NULL) LIMIT 1
"""


class SqliteConnection(sqlite3.Connection):
    """A connection that computes nothing and takes no value of any size; SQLAlchemy makes it, wherever it connects.

    Raises
    ------
    sqlite3.DatabaseError : the file has more than tables and indexes of values
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        try:
            self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
            self.execute("PRAGMA trusted_schema = OFF")
            self.execute("PRAGMA cell_size_check = ON")
            self._check_objects()
        except BaseException:
            self.close()
            raise
        self.text_factory = bounded_text

    def _check_objects(self) -> None:
        for query in (_OTHER_OBJECTS, _OTHER_COLUMNS):
            for kind, name in self.execute(query):
                raise sqlite3.DatabaseError(f"it has the {kind} '{name}', {REFUSED}")


def bounded_text(value: bytes) -> str:
    """A text as it is read from a file.

    Raises
    ------
    sqlite3.DataError : it is no text, or JSON that would take too much memory
    """
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise sqlite3.DataError("a text is not UTF-8") from None
    if len(value) > _SHORT_BYTES and objects_bytes(text) > MOST_OBJECT_BYTES:
        raise sqlite3.DataError("a text has more lists, objects and values than any that damoos writes")
    return text


def connect_args(wait_s: float) -> dict[str, Any]:
    """How SQLAlchemy is to connect.

    Parameters
    ----------
    wait_s : float, seconds
        For another process that writes.
    """
    return {"timeout": wait_s, "factory": SqliteConnection}
