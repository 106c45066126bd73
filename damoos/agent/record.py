"""What DAMON sees, sent to the controller as it comes.

The kernel tells it through the trace event ``damon:damon_aggregated``, one event per region and aggregation. It is read
from an instance of tracefs that is damoos's own, so that nobody else's tracing is disturbed, and as the kernel's pages
of binary events: to take them costs a hundredth of what the text would. Where there is no tracing, a scheme that does
nothing shows its regions now and then instead.

References
----------
Documentation/trace/ftrace.rst (instances, trace_pipe_raw); kernel/trace/ring_buffer.c
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from damoos.agent.access_counts import access_counts
from damoos.agent.kernel_objects import KernelObjects
from damoos.agent.memory import page_entries, resident_blocks
from damoos.agent.messages import Send, packed
from damoos.agent.proc import PAGE
from damoos.agent.undo import UndoLog
from damoos.damon.files import read, write
from damoos.damon.kdamond import Kdamond
from damoos.damon.scheme import Context, Scheme
from damoos.damon.sysfs import ADMIN
from damoos.errors import DamoosError, UnsupportedError

TRACEFS = (Path("/sys/kernel/tracing"), Path("/sys/kernel/debug/tracing"))
EVENT = "events/damon/damon_aggregated"
INSTANCE = "instances/damoos"
BUFFER_KIB = 2048
FLUSH_S = 0.5
# Regions that a scheme of the kernel's shows are read file by file, which takes a while.
LOOK_S = 0.5
# The memory that a process really has is counted page by page: so often at most, and for no more than this share of the
# time, so that the cost does not grow with the memory.
COUNT_S, COUNT_SHARE = 0.5, 0.01
COUNT_GROWTH = 0.05


def tracefs() -> Path | None:
    """Where the kernel shows DAMON's trace event; None where it does not."""
    # os.path says no, where pathlib would raise, to those who may not look.
    return next((mount for mount in TRACEFS if os.path.exists(mount / EVENT / "format")), None)


def source() -> str | None:
    """Where a recording would come from here: ``trace``, ``tried_regions``, or None where it cannot be had."""
    if tracefs():
        return "trace"
    return "tried_regions" if os.path.exists(Path("/") / ADMIN) else None


class Recorder:
    """Sends what a kdamond sees, from `start` to `stop`.

    Messages are ``{"event": "record", "begin": {...}}`` and then ``{"event": "record", "data": ...}``, which are pages
    of the trace buffer (each after its CPU's number, two bytes) or regions that were looked at, and ``"resident"``,
    where each target has memory; compressed by zlib and in base64.

    Parameters
    ----------
    spec : dict
        ``sz_bytes``: no more is sent than that, before compression. ``source``: ``trace``, ``tried_regions``, or None
        for the first of these that there is. ``pages``: whether accesses to each page are sent as well, where an
        emulator counts them: the time, and `damoos.agent.access_counts.AccessCounts.pages` since the last one. Where
        the targets are processes, ``entries`` come with it: `damoos.agent.memory.page_entries` of each.
        ``objects``: whether `damoos.agent.kernel_objects.KernelObjects` are watched as well.
    send : callable
        Sends a message to the controller.
    """

    def __init__(self, spec: dict[str, Any], log: UndoLog, send: Send) -> None:
        chosen = spec.get("source") or source()
        if chosen is None or (chosen == "trace" and tracefs() is None):
            raise UnsupportedError("this kernel does not trace DAMON (CONFIG_TRACEPOINTS, tracefs mounted)")
        self._place = tracefs() if chosen == "trace" else None
        self._log = log
        self._send = send
        self._left = int(spec["sz_bytes"])
        self.sent_bytes = 0
        self.lost_events = 0
        self._full = False
        self._files: list[tuple[int, int]] = []
        self._ended = threading.Event()
        self._error: DamoosError | None = None
        self._thread: threading.Thread | None = None
        self._pages = access_counts() if spec.get("pages") else None
        if spec.get("pages") and self._pages is None:
            raise UnsupportedError("accesses are not counted here; they are in a guest with count_accesses = true")
        self._objects = KernelObjects(tracefs(), log, send, access_counts()) if spec.get("objects") else None
        self._next_look = 0.0
        self._begun = time.monotonic()
        self._next_count = self._next_pages = 0.0

    def shown(self, context: Context) -> Context:
        """A context as it has to run: without tracing, with a scheme that shows all regions and does nothing.

        Raises
        ------
        UnsupportedError : without tracing, nothing says which intervals the kernel has chosen
        """
        if context.attrs.goal and not self._place:
            raise UnsupportedError(
                "this kernel does not trace DAMON, so a recording cannot tell the intervals it tunes"
            )
        return context if self._place else Context((Scheme("stat"),), context.operations, context.attrs)

    def prepare(self) -> None:
        """Do what takes a while, before the workload starts."""
        if self._objects:
            self._objects.prepare()

    def start(self) -> None:
        """Begin, before the kdamond does."""
        begin: dict[str, Any] = {"source": "trace" if self._place else "tried_regions", "page_bytes": PAGE}
        if self._place:
            instance = self._instance(self._place)
            begin |= {"format": read(instance / EVENT / "format"), "page": read(self._place / "events/header_page")}
            self._thread = threading.Thread(target=self._take_all, daemon=True, name="recorder")
        self._send({"event": "record", "begin": begin})
        if self._thread:
            self._thread.start()
        if self._objects:
            self._objects.start()

    def stop(self) -> None:
        """Send what is left and let go of the kernel's files; what it had changed is undone by the log."""
        self._ended.set()
        if self._thread:
            self._thread.join()
        for _, file in self._files:
            os.close(file)
        self._files = []
        if self._objects:
            self._objects.stop()

    def look(self, kdamond: Kdamond, pids: Sequence[int]) -> None:
        """Look at what the kernel does not tell by itself; called again and again.

        Parameters
        ----------
        pids : sequence of int
            The targets, in their order; empty for paddr.
        """
        now = time.monotonic()
        if self._objects:
            self._objects.look(now)
        if self._pages and now >= self._next_pages:
            self._next_pages = now + LOOK_S
            entries = [[[at, packed(words)] for at, words in page_entries(pid)] for pid in pids]
            pages = packed(struct.pack("=d", now) + self._pages.pages())
            self._send({"event": "record", "pages": pages, "entries": entries})
        if pids and now >= self._next_count:
            counts = [resident_blocks(pid) for pid in pids]
            self._send({"event": "record", "resident": packed(json.dumps([now, counts]).encode())})
            spent_s = time.monotonic() - now
            # Rarer as time goes by, too, so that a long recording has no more of it than a short one.
            self._next_count = now + max(COUNT_S, spent_s / COUNT_SHARE, COUNT_GROWTH * (now - self._begun))
        if self._place or self._full or now < self._next_look:
            return
        self._next_look = now + LOOK_S
        self._give(struct.pack("=d", now) + b"".join(struct.pack("=4q", *region) for region in kdamond.regions()))

    def result(self) -> dict[str, Any]:
        """What came of it, after its end."""
        if self._error:
            raise self._error
        return {"sent_bytes": self.sent_bytes, "lost_events": self.lost_events, "full": self._full}

    def _instance(self, place: Path) -> Path:
        """An instance of our own, with the one event on and a clock that others have, too."""
        instance = place / INSTANCE
        self._log.record("trace_instance", path=str(instance))
        instance.mkdir(exist_ok=True)
        write(instance / "trace_clock", "mono")
        write(instance / "buffer_size_kb", BUFFER_KIB)
        for cpu in sorted((instance / "per_cpu").iterdir()):
            self._files.append((int(cpu.name[3:]), os.open(cpu / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)))
        write(instance / EVENT / "enable", 1)
        return instance

    def _take_all(self) -> None:
        try:
            while not self._ended.wait(FLUSH_S):
                self._take()
            write(self._instance_path() / EVENT / "enable", 0)
            self._take()
            self.lost_events = sum(self._overrun(cpu) for cpu, _ in self._files)
        except (OSError, DamoosError) as error:
            self._error = error if isinstance(error, DamoosError) else UnsupportedError(f"tracefs: {error}")

    def _take(self) -> None:
        """Send what the kernel has by now."""
        pages = []
        for cpu, file in self._files:
            while page := self._page(file):
                pages.append(struct.pack("=H", cpu) + page.ljust(PAGE, b"\0"))
        if pages and not self._full:
            fitting = self._left // (PAGE + 2)
            self._give(b"".join(pages[:fitting]))
            self._full = len(pages) > fitting

    @staticmethod
    def _page(file: int) -> bytes:
        try:
            return os.read(file, PAGE)
        except BlockingIOError:
            return b""

    def _overrun(self, cpu: int) -> int:
        """Events that the kernel wrote over before they were taken."""
        words = dict(line.split(": ") for line in read(self._instance_path() / f"per_cpu/cpu{cpu}/stats").splitlines())
        return int(words["overrun"]) + int(words["dropped events"])

    def _instance_path(self) -> Path:
        assert self._place
        return self._place / INSTANCE

    def _give(self, data: bytes) -> None:
        if len(data) > self._left:
            self._full = True
            return
        self._left -= len(data)
        self.sent_bytes += len(data)
        self._send({"event": "record", "data": packed(data)})
