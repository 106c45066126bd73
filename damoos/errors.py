"""All errors of damoos, told apart by what the caller should do about them.

Standard library only: the agent on the target machine raises them too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class DamoosError(Exception):
    """Anything that damoos reports in one line. ``exit_code`` is what the command line ends with.

    ``shown`` is what the command line prints below that line; mostly nothing.
    """

    exit_code = 1
    shown = ""


class ConfigError(DamoosError):
    """The user's words are wrong: the message names the place, the word, and the nearest valid one."""

    exit_code = 2


class PluginError(ConfigError):
    """Code of the user's, or a plugin, that cannot be used: the message names it and the line that failed."""


class SchemeError(ConfigError):
    """A DAMOS scheme that cannot be: the message starts with the line and column of the text.

    Parameters
    ----------
    message : str
    line, column : int
        Where in the text, from 1; 0 where that cannot be told.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line, self.column = line, column

    def within(self, text: str) -> SchemeError:
        """The error with the line of a text that it is about, and a mark under the word."""
        lines = text.splitlines()
        if 0 < self.line <= len(lines) and 0 < self.column <= len(lines[self.line - 1]) + 1:
            # Tabs stay tabs, so that the mark stands under the word.
            before = "".join("\t" if char == "\t" else " " for char in lines[self.line - 1][: self.column - 1])
            self.shown = f"    {lines[self.line - 1]}\n    {before}^"
        return self


class UnsupportedError(DamoosError):
    """The machine or its kernel lacks something; the message says what does have it."""

    exit_code = 3


class MachineError(DamoosError):
    """A machine could not do what was asked."""

    exit_code = 3


class MachineTransientError(MachineError):
    """Worth trying again, on this machine booted anew or on another."""


class MachineLost(MachineTransientError):
    """The machine went silent or died."""


class MachineBusy(MachineError):
    """Somebody else uses the machine, for example a kdamond that damoos did not start."""


class CommandError(MachineError):
    """A command ran on the machine and failed: argv, exit status, last lines of its error output."""


class WorkloadError(DamoosError):
    """The workload crashed, hung past its limit or exited non-zero; the trial failed."""

    exit_code = 5


class MeasurementError(DamoosError):
    """A metric is missing or not finite. Never scored, never replaced by a number."""

    exit_code = 5


class StoreError(DamoosError):
    """The study store cannot be read or written."""

    exit_code = 3


class NothingFeasible(DamoosError):
    """The budget is spent and no trial kept the scorer's limits."""

    exit_code = 4


class TooManyFailures(DamoosError):
    """Trials failed one after the other; going on would only burn the budget."""

    exit_code = 5


# What files of studies, sweeps and services keep of an error: some of its words are a machine's.
MOST_CHARS = 4000


def to_wire(error: DamoosError) -> dict[str, str]:
    """An error as plain values, to be raised again by `from_wire` in another process."""
    return {"type": type(error).__name__, "message": str(error)}


# What agents raise. The other classes are about this computer's own files and the user's words: where one of them says
# that nothing can be stored, a whole sweep ends.
_OF_AGENTS = (
    ConfigError, SchemeError, UnsupportedError, MachineError, MachineTransientError, MachineLost, MachineBusy,
    CommandError, WorkloadError, MeasurementError,
)  # fmt: skip


def from_wire(form: dict[str, str]) -> DamoosError:
    """The error that `to_wire` wrote, of the same class if agents raise it; else a MachineError."""
    kind = next((one for one in _OF_AGENTS if one.__name__ == form["type"]), MachineError)
    return kind(form["message"])


# As many valid words as a message lists, and of more of them as many as it names.
MOST_LISTED, MOST_NAMED = 16, 5


def nearest(word: str, valid: Iterable[str]) -> str:
    """End of an error message: the nearest valid word; where none is near, all of them, or the nearest of many.

    Nothing where no word is valid.

    Returns
    -------
    str
        For example ``; did you mean 'pageout'?`` or ``; known: none, zram``.
    """
    words = sorted(valid)
    if not words:
        return ""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    if len(words) <= MOST_LISTED:
        return f"; known: {', '.join(words)}"
    named = difflib.get_close_matches(word, words, n=MOST_NAMED, cutoff=0.0)
    return f"; known, among {len(words)}: {', '.join(named)}"
