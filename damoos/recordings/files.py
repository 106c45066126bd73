"""Recordings as files of damo, the DAMON user-space tool, which reads ours as we read its.

A file is a JSON list of records, one for each target, plain or (damo's habit, and ours) compressed by zlib. The first
record of ours has one key more, ``damoos``, which damo passes over: where the recording comes from, and the attributes
that damo's form has no place for.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from damoos.common import user_file
from damoos.common.atomic_file import fill
from damoos.common.unpack import MALFORMED, Unpacker, in_short
from damoos.damon.attrs import Attrs
from damoos.errors import ConfigError, StoreError
from damoos.recordings import damo_json, journal, trace
from damoos.recordings.recording import Recording

# What a recording's folder has.
FILE_NAME = "recording.damo"
# And what it has instead where 'damoos record' was killed.
JOURNAL = "recording.journal"


def find(name: str | Path, results: Path) -> Path:
    """The file of a recording.

    Parameters
    ----------
    name : str or Path
        A file, a recording's folder, or the name of one in the results folder.
    results : Path

    Raises
    ------
    ConfigError : there is none
    """
    path = Path(name)
    for folder in (path, results / path):
        if folder.is_dir():
            for file in (folder / FILE_NAME, folder / JOURNAL):
                if file.is_file():
                    return file
            raise ConfigError(f"{folder}: no recording in this folder (a file '{FILE_NAME}')")
    if not path.exists():
        raise ConfigError(f"{path}: no such file, and no recording of this name in {results}/")
    return path


def read(path: str | Path, attrs: Attrs | None = None) -> Recording:
    """A recording from any file that damo writes itself: ``json``, ``json_compressed``, ``perf_script``.

    Parameters
    ----------
    path : str or Path
    attrs : Attrs or None
        What a file is to be read with that does not say its intervals.

    Raises
    ------
    ConfigError : not such a file, or there is no whole snapshot in it
    """
    path = Path(path)
    return replace(_read(path, attrs), path=path)


def _read(path: Path, attrs: Attrs | None) -> Recording:
    if path.name == JOURNAL:
        return journal.read(path)
    try:
        text = _text(user_file.read_bytes(path))
        if text.lstrip()[:1] == "[":
            return damo_json.parse(text, attrs)
        if trace.EVENT in text:
            return trace.parse(text, attrs)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except KeyError as error:
        raise ConfigError(f"{path}: not a recording that damo or damoos wrote: a record has no {error}") from None
    except (ConfigError, *MALFORMED) as error:
        raise ConfigError(f"{path}: cannot be read as a recording: {in_short(error)}") from None
    raise ConfigError(f"{path}: not a recording: expected damo's JSON, plain or compressed, or its perf_script text")


def _text(raw: bytes) -> str:
    if raw.startswith(b"PERFILE2"):
        raise ValueError("it is perf's binary form; convert it to text with 'perf script -i FILE'")
    if raw[:1] == b"\x78":  # the first byte of zlib's header, whatever the window and the level
        raw = Unpacker.of(len(raw)).zlib(raw)
    return raw.decode(errors="strict")


def write(recording: Recording, path: str | Path) -> Path:
    """Write a recording, for its owner's eyes alone (mode 600), whole or not at all.

    Parameters
    ----------
    recording : Recording
    path : str or Path
        Plain JSON where it ends in ``.json``, else compressed; damo 3.4 opens plain JSON only where the ``file``
        command calls it "JSON data", so compressed is the form to give to damo.

    Raises
    ------
    StoreError : the file cannot be written
    """
    path = Path(path)
    plain = (piece.encode() for piece in damo_json.pieces(recording))
    try:
        fill(path, plain if path.suffix == ".json" else compressed(recording))
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    return path


def compressed(recording: Recording) -> Iterator[bytes]:
    """Parts of a recording's file in the compressed form."""
    squeeze = zlib.compressobj()
    for piece in damo_json.pieces(recording):
        if part := squeeze.compress(piece.encode()):
            yield part
    yield squeeze.flush()
