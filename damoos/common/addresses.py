"""Addresses with a password or another secret in them, which damoos does not take.

The command line is seen by all users of this computer, and addresses are kept in files of studies, sweeps and services.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://\S+")
# All that stands before the host of a page: a user alone may be a token.
_OF_PAGE = re.compile(r"(?i)(https?://)[^/?#]*@")
# A user and a password, up to the last @: what follows the colon is no port.
_PASSWORD = re.compile(r"(://(?!\[)[^/?#]*:)(?!\d*(?:[/?#]|$)).*@")
_PARAMETER = re.compile(r"(?<=[?&;#])([^=?&;#]+)=[^&;#]+")
# libpq knows words without a URL as well, and a mistyped URL may have them behind a hash.
_PARAMETER_OF_STORE = re.compile(r"(?:^|(?<=[?&;#\s]))([^=?&;#\s]+)\s*=\s*[^&;#\s]+")
_SECRET = re.compile(r"(?i)pass|pwd|^pw$|^pin$|^code$|token|jwt|bearer|secret|key|sig|auth|access|cred|session")
# PostgreSQL has parameters for files of passwords and of keys, which are no secrets.
_SECRET_OF_STORE = re.compile(r"(?i)pass(?!file)|pwd|^pw$|token|secret|api_?key|scram_")


def hidden(text: str) -> str:
    """A text with addresses as it may be shown: asterisks stand for their secrets."""
    return _ADDRESS.sub(lambda found: _hidden(found[0]), text)


def has_secret(text: str) -> bool:
    """Whether an address in a text tells a password, or a word that is to be kept as one."""
    return hidden(text) != text


def hidden_store(url: str) -> str:
    """A storage URL as it may be shown: asterisks stand for its secrets."""
    shown = _without_parameters(url, _SECRET_OF_STORE, _PARAMETER_OF_STORE)
    begin, at, place = shown.rpartition("@")
    if not at or not _has_password(url):
        return shown
    scheme, mark, user = begin.rpartition("://")
    return f"{scheme}{mark}{user.partition(':')[0]}:***@{place}"


def store_has_secret(url: str) -> bool:
    """Whether a storage URL tells a password."""
    return hidden_store(url) != url


def _hidden(address: str) -> str:
    without = _OF_PAGE.sub(r"\1***@", _PASSWORD.sub(r"\1***@", address))
    return _without_parameters(without, _SECRET)


def _without_parameters(address: str, secret: re.Pattern[str], parameter: re.Pattern[str] = _PARAMETER) -> str:
    """An address without the values of the parameters whose names, decoded, have a word of a secret in them."""

    def value_hidden(found: re.Match[str]) -> str:
        return f"{found[1]}=***" if secret.search(unquote_plus(found[1])) else found[0]

    return parameter.sub(value_hidden, address)


def _has_password(url: str) -> bool:
    """Whether SQLAlchemy finds a password in a storage URL, or cannot read it: a mistyped one may have one, too."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(url).password is not None
    except (ArgumentError, ValueError):  # the latter: its port is no number
        return "//" in url or "/" not in url.partition(":")[0]  # and it is no path
