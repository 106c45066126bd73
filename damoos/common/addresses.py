"""Addresses with a password or another secret in them, which damoos does not take.

The command line is seen by all users of this computer, and addresses are kept in files of studies, sweeps and services.
"""

from __future__ import annotations

import re

# Of a page all that stands before the host: a user alone may be a token.
_OF_PAGE = re.compile(r"(https?://)[^/?#@\s]*@")
# Of a storage, as SQLAlchemy reads it: what follows the first colon, up to the sign before the host.
_OF_STORE = re.compile(r"((?<!http)(?<!https)://[^:/@?#\s]*):[^@]*@")
_NAMED = re.compile(r"(?i)([?&][^=&#]*(?:passw|pwd|token|secret|api_?key)[^=&#]*=)[^&#]+")


def hidden(address: str) -> str:
    """An address as it may be shown: asterisks stand for its secrets."""
    return _NAMED.sub(r"\1***", _OF_PAGE.sub(r"\1***@", _OF_STORE.sub(r"\1:***@", address)))


def has_secret(address: str) -> bool:
    """Whether an address tells a password, or a word that is to be kept as one."""
    return hidden(address) != address
