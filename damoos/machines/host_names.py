"""Names and addresses of hosts, checked before anything connects."""

from __future__ import annotations

import ipaddress
import re

_MOST_LETTERS = 253
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?", re.ASCII)


def objection(host: str) -> str | None:
    """Why a text is no name and no address of a host, in words that follow it; None if it is one.

    Parameters
    ----------
    host : str
        Such as ``db-1.example.org``, ``192.0.2.1`` or ``fe80::1%eth0``.
    """
    if len(host) > _MOST_LETTERS:
        return f"is longer than {_MOST_LETTERS} letters"
    if ":" in host:
        return None if _is_address(host.partition("%")[0]) else "is no IPv6 address"
    if "@" in host:
        return 'has a user in it; write the user as user = "NAME"'
    try:
        labels = host.removesuffix(".").encode("idna").decode("ascii").split(".")
    except UnicodeError:
        return "is no host name: each part between dots has 1 to 63 letters"
    if not all(map(_LABEL.fullmatch, labels)):
        return "is no host name: its parts have letters, digits and hyphens, 1 to 63 of them"
    return None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
