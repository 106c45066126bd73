"""Connections to SQLite files that may be another person's: data is read from them, and nothing in them is computed.

A view, a trigger, a generated column or an index of an expression is a program of the file's author. It can run for
ever or give gigabytes. A link in the place of the file, or of one that SQLite keeps beside it, would lead to a file of
another purpose.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

from damoos import regular_file
from damoos.common.own_file import objection_to_names
from damoos.common.unpack import objects_bytes

# What a value may have, and what the values within its JSON may take in memory: many times what the largest does.
MOST_BYTES = 16 << 20
MOST_OBJECT_BYTES = 32 << 20
# Shorter ones need no look.
_SHORT_BYTES = 64 << 10
REFUSED = "that Optuna does not make"
# Of the files that SQLite keeps beside a database; it writes to them even where it only reads.
_JOURNAL = "-journal"
_ENDS = ("", "-wal", "-shm", _JOURNAL)
# A journal that ends so names another file before, which SQLite deletes. It is written only where several databases are
# attached, which damoos and Optuna never do.
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
# What a statement may take, in instructions of SQLite's virtual machine: pages that are shared have rows without end.
# One that reads all rows of a store takes less than one for each byte of the file.
_MOST_PER_BYTE, _MOST_BESIDE, _LOOK_EVERY = 20, 1_000_000, 100_000
# Of a file that another program made; Optuna makes one of these three first.
_FOREIGN_TABLES = """
    SELECT 'table', name FROM sqlite_master WHERE type = 'table'
    AND NOT EXISTS (SELECT 1 FROM sqlite_master WHERE name IN ('studies', 'version_info', 'alembic_version')) LIMIT 1
"""
# An index that SQLite makes by itself has no SQL.
_OBJECTS = "SELECT type, name, sql FROM sqlite_master"
_INDEX = re.compile(r'CREATE (UNIQUE )?INDEX "?\w+"? ON "?\w+"? \("?\w+"?(, "?\w+"?)*\)', re.ASCII)
# What begins an expression in the SQL of a table, and the only one that Optuna has.
_COMPUTES = re.compile(r"\b(check|as|default|generated|collate)\b", re.IGNORECASE)
_OPTUNAS = "CHECK (version_info_id=1)"


class SqliteConnection(sqlite3.Connection):
    """A connection that computes nothing and takes no value of any size; SQLAlchemy makes it, wherever it connects.

    Raises
    ------
    sqlite3.DatabaseError : it, or a file that SQLite keeps beside it, is a link; it has more than tables and indexes
        of values, or only tables of another program
    """

    def __init__(self, database: str, *args: Any, **options: Any) -> None:
        file = path(database)
        _check_files(file)
        super().__init__(database, *args, **options)
        self._path, self._nr_looks = file, 0
        self.set_progress_handler(self._is_endless, _LOOK_EVERY)
        try:
            self.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
            self.execute("PRAGMA trusted_schema = OFF")
            self.execute("PRAGMA cell_size_check = ON")
            self._check_objects()
        except BaseException:
            self.close()
            raise
        self.text_factory = bounded_text

    def cursor(self, factory: type[sqlite3.Cursor] | None = None) -> sqlite3.Cursor:  # type: ignore[override]
        """A cursor whose statements are bounded."""
        return super().cursor(factory or _Cursor)

    def new_statement(self) -> None:
        """Begin to count anew what a statement takes."""
        self._nr_looks = 0

    def _is_endless(self) -> bool:
        self._nr_looks += 1
        beside = self._nr_looks * _LOOK_EVERY - _MOST_BESIDE
        if beside <= 0:
            return False
        sz_bytes = sum(os.stat(file).st_size for end in ("", "-wal") if os.path.exists(file := self._path + end))
        return beside > _MOST_PER_BYTE * sz_bytes

    def _check_objects(self) -> None:
        objects = ((kind, name) for kind, name, sql in self.execute(_OBJECTS) if not _is_plain(kind, sql))
        for kind, name in chain(objects, self.execute(_FOREIGN_TABLES)):
            raise sqlite3.DatabaseError(f"it has the {kind} '{name}', {REFUSED}")


class _Cursor(sqlite3.Cursor):
    connection: SqliteConnection

    def execute(self, sql: str, parameters: sqlite3._Parameters = (), /) -> Self:
        self.connection.new_statement()
        return super().execute(sql, parameters)

    def executemany(self, sql: str, parameters: Iterable[sqlite3._Parameters], /) -> Self:
        self.connection.new_statement()
        return super().executemany(sql, parameters)


def _is_plain(kind: str, sql: object) -> bool:
    """Whether an object is a table or an index of values, without an expression that would be computed."""
    if kind == "index" and sql is None:
        return True
    if not isinstance(sql, str):
        return False
    if kind == "index":
        return _INDEX.fullmatch(sql) is not None
    if kind != "table" or not sql.upper().startswith("CREATE TABLE "):
        return False
    return _COMPUTES.search(sql.replace(_OPTUNAS, "")) is None


def path(database: str) -> str:
    """The path of a database, of which SQLite takes a ``file:`` URI, too."""
    return unquote(database.removeprefix("file:").partition("?")[0]) if database.startswith("file:") else database


def _check_files(path: str) -> None:
    """Refuse links in the place of a database's files, and a journal that names a file to delete."""
    for end in _ENDS:
        with suppress(FileNotFoundError):
            if objection := objection_to_names(os.lstat(path + end)):
                raise sqlite3.DatabaseError(f"{path}{end}: {objection}")
            if end == _JOURNAL and _end_of(path + end, len(_NAMES_ANOTHER)) == _NAMES_ANOTHER:
                raise sqlite3.DatabaseError(f"{path}{end}: it names another file, {REFUSED}")


def _end_of(path: str, nr_bytes: int) -> bytes:
    with regular_file.opened(Path(path)) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - nr_bytes))
        return file.read(nr_bytes)


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
