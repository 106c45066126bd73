"""Names of Debian's packages, as files have them: apt, which gets them as arguments, takes other words for options."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from damoos.common.terminal import printable

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?")


def check(name: str) -> str:
    """Return the name of a package, perhaps with an architecture behind it.

    Raises
    ------
    ValueError : it is none

    References
    ----------
    Debian Policy, 5.6.1: lower-case letters, digits, plus, minus and full stop
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"'{printable(name)}' is not the name of a Debian package, such as redis-server: write lower-case letters,"
            " digits, '+', '-' and '.', and begin with a letter or a digit"
        )
    return name


PackageName = Annotated[str, AfterValidator(check)]
"""The name of one package."""
