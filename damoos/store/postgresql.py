"""Connections to PostgreSQL servers: a silent server is given up, and no password is sent to one in clear text."""

from __future__ import annotations

import os
from typing import Any

from damoos.common import addresses
from damoos.errors import ConfigError, StoreError

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
CLEAR_TEXT = (
    "damoos sends no password in clear text; have the server use scram-sha-256, or, where it must be, add"
    " ?sslmode=verify-full&require_auth=password to the storage"
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


def _check_libpq(url: str) -> None:
    import psycopg

    if (version := psycopg.pq.version()) < _LEAST_LIBPQ:
        raise StoreError(
            f"store {addresses.hidden_store(url)}: libpq {version // 10000} here cannot be told to send no password in"
            " clear text; install one that can: pip install 'psycopg[binary]'"
        )
