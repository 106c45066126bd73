"""Raw data and results of a study as files: written whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from damoos import regular_file
from damoos.common import own_file
from damoos.common.appended import append
from damoos.common.atomic_file import put
from damoos.common.unpack import in_short, parsed
from damoos.errors import StoreError
from damoos.model.trial import RawSamples
from damoos.ownership import make_folders

if TYPE_CHECKING:
    import pandas as pd


# Permissions of files: configurations name hosts and addresses, reports are made to be shown.
PRIVATE, SHARED = 0o600, 0o666
_LOCK = ".lock"
_PID_BYTES = 16
# What a JSON file may have, and what its values may take in memory: many times what the largest does.
_JSON_BYTES, _OBJECT_BYTES = 16 << 20, 256 << 20
# What the samples of a run may take, as a file and in memory: those of a day, ten a second, take a third of it.
_SAMPLES_BYTES = 512 << 20
_NUMBERS = ("BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE")
# Snappy, which pyarrow chooses, makes of a byte no more than 22.
_COMPRESSIONS = ("SNAPPY", "UNCOMPRESSED")


# Folders of a results folder that are not of a study: what is in service, sweeps, rollouts, recordings.
_OTHERS = re.compile(r"service|(sweep|rollout)-\d+|record-.*-\d{8}-\d{6}")


def is_study_name(name: str) -> bool:
    """Whether a study of this name has a folder of its own in a results folder."""
    return own_file.is_file_name(name) and not _OTHERS.fullmatch(name)


def study_folder(results: Path, name: str) -> Path:
    """The folder of a study; its name may come from the store of another person.

    Raises
    ------
    StoreError : the name leads out of the results folder, or to a folder that is not of a study
    """
    if not is_study_name(name):
        raise StoreError(f"study '{name}': its name cannot be that of a folder in {results}, so it is not opened")
    return results / name


class HeldError(StoreError):
    """Another process holds the folder."""


class Artifacts:
    """The folder of one study."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def held(self, refusal: str) -> Iterator[None]:
        """Hold the folder, made if need be, against other processes.

        Raises
        ------
        HeldError : one has it (with the refusal as message)
        StoreError : it cannot be made
        """
        try:
            with self._opened():
                lock = own_file.lock(self.path / _LOCK)
        except OSError as error:
            raise StoreError(f"{error.filename or self.path}: {error.strerror}") from None
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise HeldError(refusal) from None
            with suppress(OSError):  # on a full disk, nobody can say which process it is
                os.pwrite(lock, f"{os.getpid():<{_PID_BYTES}}".encode(), 0)
            yield
        finally:
            os.close(lock)

    def holder(self) -> str:
        """The process that holds the folder, or has held it last, as a message calls it; empty if that is not known."""
        try:
            pid = regular_file.whole(self.path / _LOCK, _PID_BYTES).strip()
        except (OSError, ValueError):
            return ""
        return f"process {int(pid)}" if pid.isdigit() else ""

    def in_use(self) -> bool:
        """Whether a process of this computer holds the folder; nothing is made to find out."""
        try:
            lock = own_file.descriptor(self.path / _LOCK, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(lock)
        return False

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """Descriptor of the folder, made if need be; a link in its place is not followed."""
        if not self.path.is_symlink():
            make_folders(self.path, for_group=False)
        with own_file.folder(self.path) as folder:
            yield folder

    def _write(self, name: str, fill: Callable[[BinaryIO], object], mode: int = PRIVATE, *, sync: bool = False) -> Path:
        """Have a file filled, and put it in its place in one step."""
        target = self.path / name
        try:
            with self._opened() as folder:
                put(folder, name, fill, mode, sync=sync)
        except OSError as error:
            where = self.path if error.filename == str(self.path) else target
            raise StoreError(f"{where}: {error.strerror}") from None
        return target

    def write_text(self, name: str, text: str, mode: int = PRIVATE, *, sync: bool = False) -> Path:
        """A text file; by default its owner's alone. A question mark stands for what UTF-8 has no bytes for.

        Parameters
        ----------
        sync : bool
            Whether it is on the disk before this returns, so that a power failure leaves the new one.
        """
        return self._write(name, lambda out: out.write(text.encode(errors="replace")), mode, sync=sync)

    def write_json(self, name: str, value: Any, *, sync: bool = False) -> Path:
        """A JSON file; on one line, which takes a tenth of the time of a pretty one. `sync` is that of `write_text`."""
        return self.write_text(name, json.dumps(value) + "\n", sync=sync)

    def add_name(self, name: str, another: str) -> None:
        """Give a file a second name; a full disk takes that, and no new file. It is on the disk before this returns.

        Raises
        ------
        StoreError : the disk does not take it
        """
        try:
            with self._opened() as folder:
                with suppress(FileExistsError):
                    os.link(name, another, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                os.fsync(folder)
        except OSError as error:
            raise StoreError(f"{self.path / another}: {error.strerror}") from None

    def append(self, name: str, line: str) -> None:
        """Write a line at the end of a text file."""
        try:
            append(self.path / name, line, PRIVATE)
        except OSError as error:
            raise StoreError(f"{error.filename or self.path / name}: {error.strerror}") from None

    def read_json(self, name: str) -> Any:
        """What a JSON file holds; None where there is none.

        Raises
        ------
        StoreError : it cannot be read, is no JSON, or is larger or has more values than files of studies
        """
        path = self.path / name
        try:
            return parsed(regular_file.whole(path, _JSON_BYTES), _OBJECT_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror}") from None
        except ValueError as error:
            raise StoreError(f"{path}: {error}") from None

    def write_bytes(self, name: str, fill: Callable[[BinaryIO], object]) -> Path:
        """A file that ``fill`` writes; others may read it as the umask has it."""
        return self._write(name, fill, SHARED)

    def write_parts(self, name: str, parts: Iterable[bytes]) -> Path:
        """A file of so many parts, its owner's alone."""
        return self._write(name, lambda out: out.writelines(parts))

    def write_samples(self, key: str, samples: RawSamples) -> Path:
        """The time series of a run, as Parquet with units in the column names."""

        def fill(out: BinaryIO) -> None:
            import numpy as np
            import pyarrow as pa
            import pyarrow.parquet as pq

            # Of one type: Arrow refuses a column in which some numbers are whole and large, and others are not.
            columns = np.array(samples.rows, dtype=float).reshape(-1, len(samples.columns)).T
            pq.write_table(pa.table(dict(zip(samples.columns, columns, strict=True))), out)

        return self._write(self.samples_path(key).name, fill)

    def copy_samples(self, key: str, another: str) -> None:
        """The time series of a run once more, under another key; nothing where nothing was measured."""
        path = self.samples_path(key)
        try:
            content = regular_file.whole(path, _SAMPLES_BYTES)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or in_short(error)}") from None
        self.write_parts(self.samples_path(another).name, [content])

    def samples_path(self, key: str) -> Path:
        """Where the time series of a run lies, if anything was measured of it."""
        return self.path / f"{key.replace('/', '_')}.parquet"  # a limit of writes is in a key: "baseline@1M/s"

    def read_samples(self, key: str) -> pd.DataFrame | None:
        """The time series of a run; None where nothing was measured of it.

        Raises
        ------
        StoreError : the file cannot be read, is no table of numbers, or takes more memory than the samples of a run
        """
        path = self.samples_path(key)
        try:
            return _table(regular_file.whole(path, _SAMPLES_BYTES))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{path}: {error.strerror or in_short(error)}") from None
        except ValueError as error:
            raise StoreError(f"{path}: {in_short(error)}") from None


def _table(content: bytes) -> pd.DataFrame:
    """A Parquet file of numbers, whose memory is known before it is taken.

    A few bytes of a file can stand for as many rows as its author likes, each with as long a text.

    Raises
    ------
    ValueError, OSError : it is no such file, or takes more than `_SAMPLES_BYTES`
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(content), arrow_extensions_enabled=False)
    about = file.metadata
    columns = [about.schema.column(nth) for nth in range(about.num_columns)]
    groups = [about.row_group(nth) for nth in range(about.num_row_groups)]
    if any(one.physical_type not in _NUMBERS or one.max_repetition_level for one in columns):
        raise ValueError("not a table of numbers")
    if any(group.column(nth).compression not in _COMPRESSIONS for group in groups for nth in range(len(columns))):
        raise ValueError("compressed in another way than samples are")
    sz_bytes = max(about.num_rows * len(columns) * 8, sum(group.total_byte_size for group in groups))
    if sz_bytes > _SAMPLES_BYTES:
        raise ValueError(f"its table takes {sz_bytes >> 20} MiB, and samples of a run {_SAMPLES_BYTES >> 20} at most")
    table: pd.DataFrame = file.read().to_pandas(ignore_metadata=True)
    return table


def numbered(results: Path, prefix: str, file: str) -> list[Path]:
    """Folders of a results folder that are called ``prefix`` and a number and have this file, by their numbers."""
    found = (one.parent for one in results.glob(f"{prefix}*/{file}"))
    mine = (one for one in found if one.name.removeprefix(prefix).isdecimal())
    return sorted(mine, key=lambda one: _number(one, prefix))


def next_name(results: Path, prefix: str, file: str) -> str:
    """Name of the next one of these folders."""
    return f"{prefix}{max((_number(one, prefix) for one in numbered(results, prefix, file)), default=0) + 1}"


def _number(folder: Path, prefix: str) -> int:
    return int(folder.name.removeprefix(prefix))
