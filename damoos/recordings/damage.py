"""Recordings whose values have the right form and do not fit together, or are too large or too small to compute with:
what computes with such a recording names its file and ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from damoos.common.unpack import MALFORMED, in_short
from damoos.errors import ConfigError, MeasurementError
from damoos.recordings.recording import Recording

P = ParamSpec("P")
T = TypeVar("T")


def names_damage(function: Callable[Concatenate[Recording, P], T]) -> Callable[Concatenate[Recording, P], T]:
    """Have a function that computes with a recording end in one line if that cannot be done.

    Parameters
    ----------
    function : callable
        Its first argument is the recording.

    Returns
    -------
    callable
        In place of the errors that Python raises on malformed data, it raises ConfigError for a recording of a file,
        and MeasurementError for one that a machine has just sent.
    """

    @functools.wraps(function)
    def computed(recording: Recording, /, *args: P.args, **words: P.kwargs) -> T:
        try:
            return function(recording, *args, **words)
        except MALFORMED as error:
            if recording.path is None:
                raise MeasurementError(f"the recording cannot be computed with: {in_short(error)}") from error
            raise ConfigError(f"{recording.path}: cannot be computed with: {in_short(error)}") from error

    return computed
