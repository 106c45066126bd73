"""Sizes and times as TOML files have them: words with a unit, checked when a file is loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from damoos.errors import ConfigError
from damoos.units import parse_bytes, parse_latency, parse_time


def checked(parse: Callable[[str], int], words: str) -> int:
    """What words say; ValueError, which a file's error message takes up, where they say nothing."""
    try:
        return parse(words)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _is(parse: Callable[[str], int], above_0: bool) -> AfterValidator:
    def check(words: str) -> str:
        if not checked(parse, words) and above_0:
            raise ValueError(f"'{words}' is not above 0")
        return words

    return AfterValidator(check)


Size = Annotated[str, _is(parse_bytes, above_0=False)]
"""Words of a size, such as ``256M``."""
SomeSize = Annotated[str, _is(parse_bytes, above_0=True)]
"""The same, not 0."""
SomeLatency = Annotated[str, _is(parse_latency, above_0=True)]
"""Words of a latency of memory, such as ``80ns``."""
Time = Annotated[str, _is(parse_time, above_0=False)]
"""Words of a time, such as ``5s``; a number alone is refused."""
SomeTime = Annotated[str, _is(parse_time, above_0=True)]
"""The same, not 0."""
