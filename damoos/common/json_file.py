"""JSON files of damoos's own, checked when they are read; a damaged one can be set aside."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from damoos import regular_file
from damoos.common.toml_file import problem
from damoos.common.unpack import MALFORMED, in_short, parsed
from damoos.errors import DamoosError

# What the values of a file may take in memory, for each byte that it may have: lists of numbers of one digit take 22.
_OBJECT_BYTES_PER_BYTE = 24
# Errors of the file itself; all others are the disk's.
_LASTING = (errno.EINVAL, errno.EACCES, errno.EPERM, errno.EFBIG, errno.ELOOP, errno.ENXIO, errno.ENOTDIR,
            errno.ENAMETOOLONG)  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """Why a file cannot be used.

    Parameters
    ----------
    path : Path
    why : str
        In words that follow the path and a colon.
    status : os.stat_result or None
        Of the file, or of a link in its place; tells it from one that has taken its place since. None if its folder
        does not give it.
    may_pass : bool
        Whether the disk failed, and not the file: it may be read the next time.
    """

    path: Path
    why: str
    status: os.stat_result | None
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
        ValueError : it is no JSON, has other types or numbers that are none, or is larger or has more values than a
            file of this kind
        """
        if len(text) > self._most_bytes:
            raise ValueError(f"larger than {self._most_bytes} bytes")
        try:
            # Its values are counted before Pydantic makes objects of them, too.
            content: dict[str, Any] = parsed(text, _OBJECT_BYTES_PER_BYTE * self._most_bytes, is_finite=True)
            self._form.model_validate_json(text, strict=True)
        except ValidationError as error:
            raise ValueError(problem(error)) from None
        except DamoosError as error:
            raise ValueError(str(error)) from None
        except MALFORMED as error:  # of a form's own code, too
            raise ValueError(in_short(error)) from None
        return content

    def takes(self, content: dict[str, Any]) -> bool:
        """Whether content that is written now would be read again."""
        try:
            self.parse(json.dumps(content).encode())
        except ValueError:
            return False
        return True

    def read(self, path: Path) -> dict[str, Any] | Damage:
        """The content of a file.

        Raises
        ------
        FileNotFoundError : there is none
        """
        status = None
        try:
            status = path.lstat()
            return self.parse(regular_file.whole(path, self._most_bytes))
        except FileNotFoundError:
            raise
        except OSError as error:
            may_pass = status is None or error.errno not in _LASTING
            return Damage(path, error.strerror or str(error), status, may_pass)
        except ValueError as error:
            return Damage(path, str(error), status)

    def read_if_good(self, path: Path) -> dict[str, Any] | None:
        """The content of a file that can be made again; None if there is none, or it is damaged."""
        try:
            content = self.read(path)
        except OSError:
            return None
        return None if isinstance(content, Damage) else content


def path_aside(damage: Damage, is_made_again: bool = False) -> Path | None:
    """To which path a damaged file can be renamed: ``NAME.bad``, or ``NAME.bad-2`` and so on.

    Parameters
    ----------
    is_made_again : bool
        Whether damoos writes such a file again and again, and no person does: then there is ``NAME.bad`` alone, which
        is the last that was damaged.

    Returns
    -------
    Path or None
        None if it has to stay: another process has set it aside or replaced it, it is another user's, or the disk
        failed.
    """
    try:
        now = damage.path.lstat()  # of a link that leads nowhere, too, which is renamed itself
        is_it = damage.status is not None and os.path.samestat(now, damage.status)
        if damage.may_pass or not is_it or now.st_uid != os.geteuid():
            return None
    except OSError:
        return None
    return damage.path.with_name(f"{damage.path.name}.bad") if is_made_again else _free_name(damage.path)


def set_aside(damage: Damage) -> Path | None:
    """Rename a damaged file, see `path_aside`; it is never deleted.

    Returns
    -------
    Path or None
        Its new path; None if it stays, also because its folder cannot be written to.
    """
    try:
        if target := path_aside(damage):
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
