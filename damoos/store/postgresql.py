"""Connections to PostgreSQL servers, whose databases may be another person's.

A silent server is given up, no password is sent to one in clear text, and none of another user of this computer is
logged in to (`damoos.store.postgresql_client`). As of a SQLite file, data is read from a
database, and nothing in it is computed: a view, a rule, a trigger or a policy of rows is a program of its author.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from damoos.common import addresses
from damoos.errors import ConfigError, StoreError
from damoos.store import sqlite_file

if TYPE_CHECKING:
    import psycopg

    from damoos.store.postgresql_client import BoundedConnection

DRIVER = "postgresql+psycopg"
# Words of libpq, and the variables by which a user says them for all programs. What the user says goes first.
_WORDS: dict[str, tuple[str | int, str]] = {
    "connect_timeout": (10, "PGCONNECT_TIMEOUT"),
    "require_auth": ("!password", "PGREQUIREAUTH"),
    # A server that has vanished is noticed after a minute.
    "keepalives_idle": (30, ""),
    "keepalives_interval": (10, ""),
    "keepalives_count": (3, ""),
    "tcp_user_timeout": (60_000, ""),
}
# The first libpq that knows require_auth.
_LEAST_LIBPQ = 160000
# A statement of damoos takes milliseconds, but the database may be busy.
STATEMENT_MS = 60_000
# Optuna's, as of Optuna 5, and its migrations'.
_TABLES = (
    "studies", "study_directions", "study_user_attributes", "study_system_attributes", "trials",
    "trial_user_attributes", "trial_system_attributes", "trial_params", "trial_values", "trial_intermediate_values",
    "trial_heartbeats", "version_info", "alembic_version",
)  # fmt: skip
# Of a fixed size, and that is what SQLAlchemy asks for, too; values of all other types are taken as texts.
_SMALL = ("bool", "int2", "int4", "int8", "oid", "float4", "float8", "timestamp")
_TYPES = ("int4", "int8", "varchar", "text", "float8", "timestamp")
# What of these names is no plain table, and what else of a table is a program or lies in another table.
_OTHERS = """
    WITH ours AS (
        SELECT * FROM pg_catalog.pg_class
        WHERE oid IN (SELECT pg_catalog.to_regclass(name) FROM pg_catalog.unnest(%(names)s::text[]) AS name)
    )
    SELECT 'view', relname::text FROM ours WHERE relkind <> 'r'
    UNION ALL SELECT 'row security of', relname FROM ours WHERE relrowsecurity
    UNION ALL SELECT 'trigger', tgname FROM pg_catalog.pg_trigger JOIN ours ON ours.oid = tgrelid WHERE NOT tgisinternal
    UNION ALL SELECT 'rule', rulename FROM pg_catalog.pg_rewrite JOIN ours ON ours.oid = ev_class
    UNION ALL SELECT 'heir of', relname FROM pg_catalog.pg_inherits JOIN ours ON ours.oid = inhparent
    UNION ALL SELECT 'column', attname FROM pg_catalog.pg_attribute JOIN ours ON ours.oid = attrelid
        JOIN pg_catalog.pg_type AS kind ON kind.oid = atttypid
        WHERE attnum > 0 AND (attgenerated <> '' OR typtype <> 'e' AND NOT typname = ANY(%(types)s))
    UNION ALL SELECT 'default of', relname FROM pg_catalog.pg_attrdef JOIN ours ON ours.oid = adrelid
        WHERE pg_catalog.pg_get_expr(adbin, adrelid) NOT LIKE 'nextval(%%'
    LIMIT 1
"""
CLEAR_TEXT = (
    "damoos sends no password in clear text; have the server use scram-sha-256, or, where it must be, add"
    " ?sslmode=verify-full&require_auth=password to the storage"
)

PROOF = (
    "damoos logs in only to a server of root's, of the account postgres or of your own; start yours, or, if that one is"
    " yours, have it prove that it knows your password: add ?require_auth=scram-sha-256 to the storage"
)


def connect_args(url: str) -> dict[str, Any]:
    """How SQLAlchemy is to connect.

    Raises
    ------
    ConfigError : the URL names another driver than psycopg
    StoreError : the libpq here cannot be kept from sending a password in clear text
    ImportError : psycopg is not installed

    References
    ----------
    PostgreSQL documentation, "Database Connection Control Functions", Parameter Key Words
    """
    if not url.startswith(f"{DRIVER}:"):
        raise ConfigError(
            f"store {addresses.hidden_store(url)}: begin it with {DRIVER}://, the driver that damoos uses"
        )
    _check_libpq(url)
    from sqlalchemy.engine import make_url

    said = make_url(url).query
    return {
        word: value
        for word, (value, variable) in _WORDS.items()
        if word not in said and not (variable and os.environ.get(variable))
    }


def creator(url: str) -> Callable[[], psycopg.Connection[Any]]:
    """Make the connections of SQLAlchemy to a storage; each computes nothing and takes no value of any size.

    Raises
    ------
    ConfigError, StoreError, ImportError : see `connect_args`
    """
    ours = connect_args(url)
    from sqlalchemy.engine import make_url

    where = make_url(url)
    kind: Any = where.get_dialect()
    words, named = kind(dbapi=kind.import_dbapi()).create_connect_args(where)
    return lambda: _connected(*words, **{**named, **ours})


def _connected(*words: Any, **named: Any) -> psycopg.Connection[Any]:
    import psycopg

    from damoos.store.postgresql_client import BoundedConnection

    connection = BoundedConnection.connect(*words, **named)
    try:
        _bound_texts(connection)
        connection.autocommit = True  # the timeout outlives the transaction
        connection.execute(f"SET statement_timeout = {STATEMENT_MS}")
        for kind, name in connection.execute(_OTHERS, {"names": list(_TABLES), "types": list(_TYPES)}):
            raise psycopg.DatabaseError(f"it has the {kind} '{name}', {sqlite_file.REFUSED}")
        connection.autocommit = False
    except BaseException:
        connection.close()
        raise
    return connection


def _bound_texts(connection: BoundedConnection) -> None:
    """Have a connection refuse texts that are too long, or whose JSON would take too much memory.

    The server names the type of each column: of JSON, an array or a range psycopg would make objects without a bound.
    """
    import psycopg
    from psycopg.adapt import Loader
    from psycopg.pq import Format

    class BoundedText(Loader):
        def load(self, data: Any) -> str:
            value = bytes(data)
            if len(value) > sqlite_file.MOST_BYTES:
                raise psycopg.DataError("a text is longer than any that damoos writes")
            try:
                text = sqlite_file.bounded_text(value)
            except sqlite3.DataError as error:
                raise psycopg.DataError(str(error)) from None
            connection.take(sys.getsizeof(text))
            return text

    class BoundedBinaryText(BoundedText):
        format = Format.BINARY

    # 0 stands for kinds that the client does not know: enumerations.
    types = list(connection.adapters.types)
    known = {0} | {kind.oid for kind in types if kind.name not in _SMALL} | {kind.array_oid for kind in types}
    for loader in (BoundedText, BoundedBinaryText):
        for oid in known:
            connection.adapters.register_loader(oid, loader)


def _check_libpq(url: str) -> None:
    import psycopg

    if (version := psycopg.pq.version()) < _LEAST_LIBPQ:
        raise StoreError(
            f"store {addresses.hidden_store(url)}: libpq {version // 10000} here cannot be told to send no password in"
            " clear text; install one that can: pip install 'psycopg[binary]'"
        )
