"""Files of a run's folder that metrics are read from: what a program has left there, up to a bounded size."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path

from damoos.agent.children import end_of
from damoos.agent.inside import open_inside
from damoos.errors import WorkloadError

FILE_BYTES = 8 << 20
"""What is taken of a file; of a longer one, the last so many bytes."""
FILES_BYTES = 20 << 20
"""What all files together may have, as the controller is sent them."""
MOST_FILES = 1000


def contents(folder: Path, patterns: Mapping[str, str]) -> dict[str, str]:
    """Texts by the paths of their files in the folder.

    Parameters
    ----------
    patterns : mapping of str to str
        Glob patterns by the metrics that are read from these files.

    Raises
    ------
    WorkloadError : a file that matches is not in the folder, or not regular, or cannot be read; or there are too many,
        or they are too large together
    """
    texts: dict[str, str] = {}
    sent_bytes = 0
    for metric, pattern in patterns.items():
        for path in _matching(folder, pattern, metric):
            name = os.fsencode(path.relative_to(folder)).decode(errors="replace")  # any bytes but two may be in a name
            if name in texts:
                continue
            texts[name] = _text(folder, path, metric)
            if len(texts) > MOST_FILES:
                raise WorkloadError(
                    f"metric '{metric}': metrics are read from more than {MOST_FILES} files, with those that match"
                    f" '{pattern}'; have the program write fewer, or name fewer"
                )
            sent_bytes += len(json.dumps(texts[name]))
            if sent_bytes > FILES_BYTES:
                raise WorkloadError(
                    f"metric '{metric}': the files that metrics are read from have more than {FILES_BYTES >> 20} MiB"
                    f" with '{name}'; have the program write less, or name fewer files"
                )
    return texts


def _matching(folder: Path, pattern: str, metric: str) -> list[Path]:
    try:
        return sorted(itertools.islice(folder.glob(pattern), MOST_FILES + 1))
    except (OSError, RecursionError) as error:
        why = "its folders are nested too deeply" if isinstance(error, RecursionError) else error.strerror
        raise WorkloadError(f"metric '{metric}': no files are found that match '{pattern}': {why}") from None


def _text(folder: Path, path: Path, metric: str) -> str:
    try:
        with open_inside(folder, path) as file:
            return end_of(file, FILE_BYTES, whole_lines=True)
    except WorkloadError as error:
        raise WorkloadError(f"metric '{metric}': {error}") from None
    except OSError as error:
        raise WorkloadError(f"metric '{metric}': '{path.name}' in the run's folder: {error.strerror}") from None
