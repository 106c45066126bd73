"""JSON files of damoos's own, checked when they are read; a damaged one can be set aside."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from damoos import regular_file
from damoos.common.toml_file import problem
from damoos.common.unpack import parsed
from damoos.errors import DamoosError

# What the values of a file may take in memory, for each byte that it may have: lists of numbers of one digit take 22.
_OBJECT_BYTES_PER_BYTE = 24
# Errors of the file itself; all others are the disk's.
_LASTING = (errno.EINVAL, errno.EACCES, errno.EPERM, errno.EFBIG, errno.ELOOP, errno.ENXIO)


@dataclass(frozen=True)
class Damage:
    """Why a file cannot be used.

    Parameters
    ----------
    path : Path
    why : str
        In words that follow the path and a colon.
    status : os.stat_result
        Tells the file from one that has taken its place since.
    may_pass : bool
        Whether the disk failed, and not the file: it may be read the next time.
    """

    path: Path
    why: str
    status: os.stat_result
    may_pass: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.why}"


class JsonForm:
    """The types of a file's content.

    Parameters
    ----------
    form : type
        Pydantic's.
    most_bytes : int
        More than the largest file of this kind has.
    """

    def __init__(self, form: type[BaseModel], most_bytes: int) -> None:
        self._form = form
        self._most_bytes = most_bytes

    def parse(self, text: bytes) -> dict[str, Any]:
        """Content whose types are those of the form.

        Raises
        ------
        ValueError : it is no JSON, has other types, or is larger or has more values than a file of this kind
        """
        if len(text) > self._most_bytes:
            raise ValueError(f"larger than {self._most_bytes} bytes")
        try:
            # Its values are counted before Pydantic makes objects of them, too.
            content: dict[str, Any] = parsed(text, _OBJECT_BYTES_PER_BYTE * self._most_bytes)
            self._form.model_validate_json(text, strict=True)
        except ValidationError as error:
            raise ValueError(problem(error)) from None
        except (DamoosError, RecursionError) as error:
            raise ValueError(str(error)) from None
        return content

    def read(self, path: Path) -> dict[str, Any] | Damage:
        """The content of a file.

        Raises
        ------
        FileNotFoundError : there is none
        """
        status = path.stat()
        try:
            return self.parse(regular_file.whole(path, self._most_bytes))
        except FileNotFoundError:
            raise
        except OSError as error:
            return Damage(path, error.strerror or str(error), status, may_pass=error.errno not in _LASTING)
        except ValueError as error:
            return Damage(path, str(error), status)


def set_aside(damage: Damage) -> Path | None:
    """Rename a damaged file to ``NAME.bad``, or ``NAME.bad-2`` and so on; it is never deleted.

    Returns
    -------
    Path or None
        Its new path; None if it stays: another process has set it aside or replaced it, it is another user's, the disk
        failed, or the folder cannot be written to.
    """
    try:
        now = damage.path.stat()
        if damage.may_pass or not os.path.samestat(now, damage.status) or now.st_uid != os.geteuid():
            return None
        target = _free_name(damage.path)
        damage.path.rename(target)
    except OSError:
        return None
    return target


def _free_name(path: Path) -> Path:
    nth, target = 1, path.with_name(f"{path.name}.bad")
    while os.path.lexists(target):
        nth += 1
        target = path.with_name(f"{path.name}.bad-{nth}")
    return target
