"""What of a workload's memory is worth protecting, as a recording tells it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from damoos.errors import ConfigError
from damoos.policies.named import PROTECT
from damoos.recordings import files
from damoos.recordings.hot import hot_ranges


def protecting(word: str, results: Path) -> dict[str, Any]:
    """The plain form of ``protect:RECORDING``, see `damoos.policies.named.policy`.

    Raises
    ------
    ConfigError : no such recording, or one whose addresses are no other run's
    """
    recording = files.read(files.find(word.removeprefix(PROTECT), results))
    if recording.operations != "vaddr" or recording.about.get("aslr") is not False:
        raise ConfigError(
            f"{word}: only a program's own addresses can be protected, and only if they are the same in each run;"
            " record it with 'damoos record' on a machine whose file has 'aslr = false'"
        )
    ranges = hot_ranges(recording)
    if not ranges:
        raise ConfigError(f"{word}: nothing was accessed while it was recorded")
    return {"protect": [list(one) for one in ranges]}
