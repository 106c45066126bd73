"""Studies and sweeps whose stored values have the right form and do not fit together, such as a run without a parameter
of its study, or a runtime of 0 to divide by: what shows such a study or sweep names it and ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from damoos.common.unpack import MALFORMED, in_short
from damoos.errors import StoreError

P = ParamSpec("P")
T = TypeVar("T")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


S = TypeVar("S", bound=_Named)


def names_damage(function: Callable[Concatenate[S, P], T], kind: str = "study") -> Callable[Concatenate[S, P], T]:
    """Have a function that shows a stored study end in one line if the study's values do not fit together.

    Parameters
    ----------
    function : callable
        Its first argument is the study, or an object with the study's name.
    kind : str
        What it is, for the message.

    Returns
    -------
    callable
        It raises StoreError in place of the errors that Python raises on malformed data.
    """

    @functools.wraps(function)
    def shown(what: S, /, *args: P.args, **words: P.kwargs) -> T:
        try:
            return function(what, *args, **words)
        except MALFORMED as error:
            raise StoreError(
                f"{kind} '{what.name}' cannot be read: its values do not fit together ({in_short(error)})"
            ) from error

    return shown


def names_sweep_damage(function: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """`names_damage` for a function that shows a sweep, by its own values and those of its studies."""
    return names_damage(function, "sweep")
