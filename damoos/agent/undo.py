"""The list of changes to take back, on disk before each change is made.

Three processes may read it: the agent at its orderly end, its guardian when the agent is killed, and the next agent
on this machine when both were killed. A change that cannot be taken back stays on the list, and is tried again by each
of them.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import errno
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from damoos.agent import proc
from damoos.agent.removal import remove_tree
from damoos.agent.swap import swapoff, used_bytes
from damoos.damon.files import append, kernel_lines, kernel_text, write
from damoos.damon.interface import kdamond
from damoos.errors import MachineError

Entry = dict[str, Any]
# Where configfs is mounted, and where null_blk's devices are made in it (damoos.agent.null_blk).
CONFIGFS = Path("sys/kernel/config")
NULL_BLK = CONFIGFS / "nullb"


class UndoLog:
    """Changes in the order in which they were made; undone last first.

    Parameters
    ----------
    path : Path
        Where the list lies: in a folder that only this user can write to, on a file system that does not outlive the
        kernel (``/run``).
    root : Path
        ``/`` on a machine; a fake tree in unit tests.

    Raises
    ------
    MachineError : the list cannot be read
    """

    def __init__(self, path: Path, root: Path = Path("/")) -> None:
        self._path = path
        self._root = root
        self._owner = ""
        self._entries: list[Entry] = []
        self.load()
        self._left_behind = list(self._entries)

    def part(self, owner: str) -> UndoLog:
        """The changes of one of several owners on the same list: what it undoes and counts are its own only."""
        part = copy.copy(self)
        part._owner = owner
        return part

    def __bool__(self) -> bool:
        """Whether anything is left to undo."""
        return bool(self._own())

    def _own(self) -> list[Entry]:
        return [entry for entry in self._entries if not self._owner or entry.get("owner") == self._owner]

    def load(self) -> None:
        """Read the list anew, after another process has written it."""
        try:
            with open(os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW)) as file:
                self._entries[:] = json.load(file)
        except FileNotFoundError:
            self._entries.clear()
        except (OSError, ValueError) as error:
            raise MachineError(
                f"{self._path}, the list of what damoos has to undo here, cannot be read: {error};"
                " undo by hand what it names, and remove it"
            ) from None

    def record(self, kind: str, **what: Any) -> None:
        """Note a change before it is made. ``kind`` names one of the ``_undo_*`` functions below."""
        self._entries.append({"kind": kind, **what, **({"owner": self._owner} if self._owner else {})})
        self._save()

    def forget(self, kind: str, **what: Any) -> None:
        """Take a change off the list that there is nothing left of to undo: a process that has ended, say."""
        known, own = {"kind": kind, **what}, self._own()
        self._entries[:] = [
            entry
            for entry in self._entries
            if entry not in own or any(entry.get(name, known) != value for name, value in known.items())
        ]
        self._save()

    def set_file(self, path: Path, value: object) -> None:
        """Write a kernel file whose present content is to come back; no change, no entry.

        If somebody else changes it meanwhile, theirs stays: see `changed_by_others`.
        """
        former = chosen(kernel_text(path).strip())
        if former == str(value):
            return
        self.record("file", path=str(path), value=former)
        entry = self._entries[-1]
        write(path, value)
        entry["set"] = chosen(kernel_text(path).strip())  # as the kernel has it, in whole pages, say
        self._save()

    def changed_by_others(self, keep: int = 0) -> list[str]:
        """Files of `set_file`, but for the first ``keep`` changes, that hold something else now, in words."""
        changed = []
        latest = {entry["path"]: entry for entry in self._own()[keep:] if entry["kind"] == "file"}
        for path, entry in latest.items():
            now = _content(Path(path))
            if "set" in entry and now not in (None, entry["set"]):  # else a rule writes it again and again
                changed.append(f"{path} is '{now}', which damoos had set to '{entry['set']}'")
        return changed

    def undo(self, keep: int = 0) -> list[str]:
        """Take changes back, last first, but for the first ``keep``. Goes on after a failure.

        Returns
        -------
        list of str : what could not be undone; it stays on the list
        """
        return self._undo(self._own()[keep:])

    def leave(self) -> list[str]:
        """`undo`, but for what has an owner that is to stay in force without an agent, and what it may need."""
        stay = {entry["owner"] for entry in self._entries if entry["kind"] == "stay"}
        if not stay:
            return self.undo()
        owned = [entry for entry in self._entries if entry.get("owner")]
        return self._undo([entry for entry in owned if entry["owner"].partition(":")[0] not in stay])

    def restore(self, keep: int = 0) -> None:
        """`undo`, for callers that go on working on the machine.

        Raises
        ------
        MachineError : something is not as it was
        """
        problems = self.undo(keep)
        if problems:
            raise MachineError(f"the agent could not undo: {'; '.join(problems)}")

    def left_behind(self) -> list[str]:
        """What an earlier agent could not undo, and this one could not either."""
        return [_shown(entry) for entry in self._those_left()]

    def undo_left_behind(self) -> list[str]:
        """Try again to undo what an earlier agent could not; returns what still cannot be undone."""
        return self._undo(self._those_left())

    def names(self, path: Path) -> bool:
        """Whether a file or folder is on the list."""
        return any(entry.get("path") == str(path) for entry in self._entries)

    def __len__(self) -> int:
        """Number of changes that are in force."""
        return len(self._own())

    def _those_left(self) -> list[Entry]:
        return [entry for entry in self._entries if any(entry is left for left in self._left_behind)]

    def _undo(self, entries: list[Entry]) -> list[str]:
        problems = []
        for entry in reversed(entries):
            try:
                _UNDO[entry["kind"]](entry, self._root)
            except Exception as error:
                problems.append(f"{_shown(entry)}: {error}")
                continue
            self._drop(entry)
            self._save()
        return problems

    def _drop(self, undone: Entry) -> None:
        """Take a change off the list, and younger ones of the same file: the values that they name are wrong by now."""
        at = next(nth for nth, entry in enumerate(self._entries) if entry is undone)
        file = undone["path"] if undone["kind"] == "file" else None
        self._entries[at:] = [
            entry
            for entry in self._entries[at + 1 :]
            if file is None or (entry["kind"], entry.get("path")) != ("file", file)
        ]

    def _save(self) -> None:
        draft = self._path.with_suffix(".new")
        draft.write_text(json.dumps(self._entries))
        draft.replace(self._path)


def _shown(entry: Entry) -> str:
    """An entry as people read it: ``file path=/proc/sys/vm/swappiness value=60``."""
    words = (f"{name}={value}" for name, value in entry.items() if name not in ("kind", "set", "owner"))
    return " ".join([entry["kind"], *words])


def chosen(text: str) -> str:
    """The value in force of a file such as ``always [madvise] never``."""
    start, end = text.find("["), text.find("]")
    return text[start + 1 : end] if 0 <= start < end else text


def kill_cgroup(path: Path) -> None:
    """End every process of a cgroup v2 and remove it."""
    if not path.exists():
        return
    deadline = time.monotonic() + 20
    with contextlib.suppress(OSError):
        (path / "cgroup.kill").write_text("1")
    while True:
        try:
            path.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _content(path: Path) -> str | None:
    """The value of a file; None where it is gone, with its module or its group."""
    try:
        return chosen(kernel_text(path).strip())
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):  # a group that goes while it is read says the latter
            return None
        raise


def _undo_file(entry: Entry, root: Path) -> None:
    now = _content(Path(entry["path"]))
    if now is not None and now == entry.get("set", now):  # else somebody else has changed it, and theirs stays
        write(Path(entry["path"]), entry["value"])


def _undo_kdamond(entry: Entry, root: Path) -> None:
    kdamond(root, entry["interface"]).remove(entry)


def _undo_cgroup(entry: Entry, root: Path) -> None:
    kill_cgroup(Path(entry["path"]))


def _undo_controller(entry: Entry, root: Path) -> None:
    write(Path(entry["path"]), f"-{entry['name']}")


def _undo_process_group(entry: Entry, root: Path) -> None:
    # While members of a group live, no other process gets its number; so if there is another one, the group is gone.
    if proc.start_ticks(entry["pgid"]) not in (None, entry["start_ticks"]):
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(entry["pgid"], signal.SIGKILL)


def _undo_swap(entry: Entry, root: Path) -> None:
    if entry["device"] in used_bytes(root):
        swapoff(entry["device"])


def _undo_swap_file(entry: Entry, root: Path) -> None:
    _undo_swap({"device": entry["path"]}, root)
    Path(entry["path"]).unlink(missing_ok=True)


def _undo_folder(entry: Entry, root: Path) -> None:
    if Path(entry["path"]).exists():
        remove_tree(entry["path"])


def _undo_trace_instance(entry: Entry, root: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(entry["path"])


def _undo_triggers(entry: Entry, root: Path) -> None:
    """Remove the triggers of an instance's events; those that read others' variables come first in the list."""
    for event in entry["events"]:
        file = Path(entry["path"]) / "events" / event / "trigger"
        lines = kernel_lines(file) if file.exists() else []
        for line in lines:
            if not line.startswith("#"):
                write(file, f"!{line.rpartition(' [')[0]}")


def _undo_synthetic_event(entry: Entry, root: Path) -> None:
    if entry["name"] in kernel_text(Path(entry["path"])):
        append(Path(entry["path"]), f"-:{entry['name']}")


def _undo_zram(entry: Entry, root: Path) -> None:
    if not (root / f"sys/block/zram{entry['id']}").exists():
        return
    _undo_swap({"device": f"/dev/zram{entry['id']}"}, root)
    (root / f"sys/block/zram{entry['id']}/reset").write_text("1")
    (root / "sys/class/zram-control/hot_remove").write_text(str(entry["id"]))


def _undo_null_blk(entry: Entry, root: Path) -> None:
    folder = root / NULL_BLK / entry["name"]
    if not folder.exists():
        return
    _undo_swap({"device": f"/dev/{entry['name']}"}, root)
    write(folder / "power", 0)
    folder.rmdir()


def _undo_mount(entry: Entry, root: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if os.path.ismount(entry["path"]) and libc.umount2(entry["path"].encode(), 0) != 0:
        raise OSError(ctypes.get_errno(), f"umount {entry['path']}")


def _undo_stay(entry: Entry, root: Path) -> None:
    """It is a mark only: its owner stays in force if the agent ends. The next agent takes all of it back."""


_UNDO = {
    "stay": _undo_stay,
    "file": _undo_file,
    "kdamond": _undo_kdamond,
    "cgroup": _undo_cgroup,
    "controller": _undo_controller,
    "process_group": _undo_process_group,
    "zram": _undo_zram,
    "null_blk": _undo_null_blk,
    "mount": _undo_mount,
    "swap": _undo_swap,
    "swap_file": _undo_swap_file,
    "folder": _undo_folder,
    "trace_instance": _undo_trace_instance,
    "triggers": _undo_triggers,
    "synthetic_event": _undo_synthetic_event,
}
