"""The page cache of files goes to slow memory once their last user has closed them, and comes back with the next one.

References
----------
KLOCs (ASPLOS'21), section 4: kernel objects follow the file or socket that they belong to. A kernel that knows this for
all its objects is not there; files' pages can be moved from user space, slab objects and sockets' buffers cannot.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from pathlib import Path

from damoos.agent import cgroup, file_cache, proc
from damoos.agent.controllers.base import Controller
from damoos.agent.file_watch import FileWatch
from damoos.agent.nodes import moved_pages, nodes_of

# Files that are closed and wait are open here; the oldest make room.
MOST_FILES = 256
_MOVED = "pgmigrate_success"


class KlocFiles(Controller):
    """Watches the files that processes of the group open and close.

    Parameters
    ----------
    group : Path
    delay_s : float, seconds
        How long nobody may have a file open before its cache is moved.
    promote : bool
        Whether the cache of a file that is opened again is moved back.
    """

    needs = ()
    columns = ("nr_open", "nr_waiting", "nr_demoted", "nr_promoted", "moved_bytes")

    def __init__(self, group: Path, delay_s: float, promote: bool) -> None:
        super().__init__(group, min(0.1, delay_s) if delay_s else 0.1)
        self._delay_s = delay_s
        self._promotes = promote
        self._watch: FileWatch | None = None
        self._fast: list[int] = []
        self._slow: list[int] = []
        self._users: dict[tuple[int, int], int] = {}
        self._waiting: OrderedDict[tuple[int, int], tuple[float, int]] = OrderedDict()
        self._on_slow: set[tuple[int, int]] = set()

    @property
    def name(self) -> str:
        """The policy's name in texts and messages."""
        return "kloc-files"

    def check(self) -> None:
        """Whether there are tiers, and files can be watched."""
        self._fast, self._slow = nodes_of("fast"), nodes_of("slow")
        FileWatch(Path("/")).close()

    def look(self) -> None:
        """Watch from now on."""
        if self._watch is None:
            self._watch = FileWatch(self._working_folder())

    def _working_folder(self) -> Path:
        for pid in cgroup.pids(self.group):
            try:
                return Path(os.readlink(f"/proc/{pid}/cwd"))
            except OSError:
                continue
        return Path("/")

    def end(self) -> None:
        """Watch no more; what has been moved stays where it is."""
        if self._watch:
            self._watch.close()
        self._watch = None
        for file in list(self._waiting):
            self._wait_no_more(file)

    def decide(self, elapsed_s: float) -> tuple[float, ...]:
        """Take note of what was opened and closed, and move what is due."""
        assert self._watch is not None
        before = moved_pages().get(_MOVED, 0)
        pids = set(cgroup.pids(self.group))
        demoted = promoted = 0
        for event in self._watch.events():
            # One that has ended since may have been of the group.
            if event.pid not in pids and os.path.exists(f"/proc/{event.pid}"):
                os.close(event.fd)
                continue
            about = os.fstat(event.fd)
            file = about.st_dev, about.st_ino
            if event.is_open:
                promoted += self._opened(file, event.fd)
            else:
                self._closed(file, event.fd)
        now = time.monotonic()
        for file, (due_s, _) in list(self._waiting.items()):
            if due_s <= now:
                demoted += self._demote(file)
        moved = moved_pages().get(_MOVED, 0) - before
        return len(self._users), len(self._waiting), demoted, promoted, moved * proc.PAGE

    def _opened(self, file: tuple[int, int], fd: int) -> bool:
        self._users[file] = self._users.get(file, 0) + 1
        self._wait_no_more(file)
        moves = self._promotes and file in self._on_slow
        if moves:
            file_cache.move(fd, self._fast)
            self._on_slow.discard(file)
        os.close(fd)
        return moves

    def _closed(self, file: tuple[int, int], fd: int) -> None:
        users = self._users.get(file, 1) - 1  # one that was opened before anybody watched has one user
        if users > 0:
            self._users[file] = users
            os.close(fd)
            return
        self._users.pop(file, None)
        self._wait_no_more(file)
        self._waiting[file] = time.monotonic() + self._delay_s, fd
        while len(self._waiting) > MOST_FILES:
            self._demote(next(iter(self._waiting)))

    def _wait_no_more(self, file: tuple[int, int]) -> None:
        if file in self._waiting:
            os.close(self._waiting.pop(file)[1])

    def _demote(self, file: tuple[int, int]) -> bool:
        moved_bytes = file_cache.move(self._waiting[file][1], self._slow)
        self._wait_no_more(file)
        if moved_bytes:
            self._on_slow.add(file)
        return bool(moved_bytes)
