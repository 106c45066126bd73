"""The agent: answers calls, one JSON object a line, until its controller says bye or vanishes.

``{"id": 1, "call": "run", "args": {...}}`` is answered by ``{"id": 1, "result": {...}}`` or by
``{"id": 1, "error": {"type": "WorkloadError", "message": "..."}}``. Calls ``ping`` and ``cancel`` are not answered: the
first feeds the dead-man timer, the second ends the run that is under way. Nothing else is written to standard output.
A line that is no call ends the agent, as the end of the connection does: what comes behind it cannot be trusted.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from damoos import errors
from damoos.agent import children, damon_stat, huge_pages, machine_setup, owner, proc, record
from damoos.agent.access_probe import seen_accesses
from damoos.agent.action_probe import tryout
from damoos.agent.cgroup import machine_metrics
from damoos.agent.features import features
from damoos.agent.folders import Folders, remove_leftovers
from damoos.agent.instruction_rate import instruction_rate
from damoos.agent.interruption import Interruption
from damoos.agent.live import Live
from damoos.agent.messages import json_line
from damoos.agent.paging_cost import swap_cost
from damoos.agent.private import state_folder
from damoos.agent.run import Run
from damoos.agent.service import Service
from damoos.agent.state import state
from damoos.agent.swap import Swap
from damoos.agent.timing_noise import Measured, steadiness
from damoos.agent.undo import UndoLog
from damoos.damon import interface
from damoos.damon.files import kernel_text
from damoos.damon.kdamond import DAMON_STAT

Call = dict[str, Any]
LOOK = "look"
# The name of what is in service, where a controller keeps one thing only.
SERVICE = "service"
# The longest line of a controller's; a call has a few KiB.
LINE_BYTES = 16 << 20
# How long an agent waits for another one that works here, and for one that is about to be gone.
BUSY_S, MAKE_WAY_S = 10.0, 60.0
# How long a call that is under way may keep an agent that is to end; then it is killed, and its guardian undoes all.
LEAVE_S = 30.0


class Link:
    """The controller's end of the line: its calls, and whether it is still there."""

    def __init__(self, dead_man_s: float) -> None:
        # Stray prints must not reach the controller: it reads our standard output line by line.
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self._dead_man_s = dead_man_s
        # A SimpleQueue: signal handlers put into it as well, whatever the main thread is doing.
        self.calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self.interrupted = Interruption()
        self.is_heard = False
        self._given_up: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._pinged = threading.Event()
        self._write_lock = threading.Lock()
        for watch in (self._read, self._beat, self._end):
            threading.Thread(target=watch, daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Write one line; a controller that is gone is noticed by the reader, not here."""
        with contextlib.suppress(OSError), self._write_lock:
            self._out.write(json_line(message) + "\n")
            self._out.flush()

    def _beat(self) -> None:
        """Show that this machine lives whenever the controller asks, also while a run keeps the main thread busy.

        In a thread of its own: while the controller takes nothing, the one that reads must still notice its end.
        """
        while self._pinged.wait():
            self._pinged.clear()
            self.send({"event": "beat"})

    def _read(self) -> None:
        try:
            self._take_lines()
        except Exception as error:
            print(f"damoos agent: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            self.give_up()

    def _take_lines(self) -> None:
        """Take calls until the connection ends or nothing comes for the time of the dead-man timer, if there is one."""
        pending = b""
        while select.select([0], [], [], self._dead_man_s or None)[0]:
            chunk = os.read(0, 1 << 16)
            if not chunk:
                break
            *lines, pending = (pending + chunk).split(b"\n")
            if len(pending) > LINE_BYTES:
                raise ValueError(f"a line of the controller's has more than {LINE_BYTES >> 20} MiB")
            for line in lines:
                self._take(_call(line))

    def give_up(self) -> None:
        """End the run under way, if any, and then the agent."""
        self.interrupted.lose()
        self.calls.put(None)
        self._given_up.put(None)

    def _end(self) -> None:
        """End the agent if a call does not: one that waits for a file system that does not answer, say."""
        self._given_up.get()
        time.sleep(LEAVE_S)
        if not self.is_heard:
            os._exit(1)

    def _take(self, call: Call) -> None:
        if call["call"] == "cancel":
            self.interrupted.cancel()
        elif call["call"] == "ping":
            self._pinged.set()
        else:
            self.interrupted.begin()  # here, in the order of the lines: a cancel may come with its call
            self.calls.put(call)


def _call(line: bytes) -> Call:
    """A line of the controller's.

    Raises
    ------
    ValueError : it is no call
    """
    call: Call = json.loads(line)
    is_call = isinstance(call, dict) and isinstance(call.get("call"), str) and isinstance(call.get("args", {}), dict)
    if not is_call:
        raise ValueError(f"{line[:80]!r} is no call")
    if call["call"] not in ("ping", "cancel") and not isinstance(call.get("id"), int):
        raise ValueError(f"call '{call['call']}' has no id")
    return call


class Agent:
    """The calls that a controller can make; each public method is one."""

    def __init__(self, link: Link, log: UndoLog) -> None:
        self._link = link
        self._log = log
        self._swap: Swap | None = None
        self._interrupted = link.interrupted
        self._folders = Folders(log, self._interrupted)
        self._live: Live | None = None
        self._services: dict[str, Service] = {}
        self._damon_stat = damon_stat.readings()
        self._is_left = False

    def facts(self) -> dict[str, Any]:
        """What this machine is, for the provenance of every result."""
        memory = proc.meminfo()
        return {
            "kernel": os.uname().release,
            "kernel_version": os.uname().version,
            "arch": os.uname().machine,
            "hostname": os.uname().nodename,
            "vcpus": os.cpu_count(),
            "mem_bytes": memory["MemTotal"],
            "swap_bytes": memory["SwapTotal"],
            "cmdline": kernel_text(Path("/proc/cmdline")).strip(),
            "boot_id": proc.boot_id(),
            "damon_in_use": _damon_in_use(),
            "damon_stat": self._damon_stat,
            "flushes_tlb": proc.flushes_tlb(),
            "has_thp": huge_pages.usable(),
            "metrics": machine_metrics(),
            "records": record.source(),
            "left_behind": self._log.left_behind(),
        }

    def clean(self) -> list[str]:
        """Try once more to undo what an earlier agent could not; returns what still cannot be undone."""
        return self._log.undo_left_behind()

    def probe(self) -> dict[str, list[str]]:
        """What this kernel's DAMON offers."""
        return interface.probe()

    def tryout(self, operations: str, actions: list[str]) -> dict[str, int]:
        """Bytes that each action is applied to here, of a small process of the agent's own."""
        return tryout(operations, actions, self._log)

    def seen_accesses(self) -> dict[str, float]:
        """What DAMON sees here of memory that is accessed, and of memory that is not."""
        return seen_accesses(self._log)

    def features(self) -> dict[str, str]:
        """What the kernel has, for people to read."""
        return features(self._log)

    def state(self) -> dict[str, Any]:
        """What this machine is like right now."""
        return state()

    def set_wall_clock(self, wall_s: float) -> None:
        """Set this machine's date: a guest that goes on from a snapshot has that of the snapshot."""
        time.clock_settime(time.CLOCK_REALTIME, wall_s)

    def steadiness(self, for_s: float, cpus: list[int]) -> Measured:
        """Repeat the same work for a while; how much its times differ is the machine's noise."""
        return steadiness(for_s, cpus, self._interrupted)

    def instruction_rate(self) -> float | None:
        """Instructions that a CPU executes in a second of this machine's time."""
        return instruction_rate()

    def swap_cost(self) -> dict[str, Any]:
        """What paging a page out and faulting it back costs here."""
        return swap_cost()

    def which(self, program: str) -> str | None:
        """Path of a program on this machine, or None; a path may be that of any file."""
        return program if program.startswith("/") and os.path.isfile(program) else shutil.which(program)

    def prepare(self, **wanted: Any) -> None:
        """Set swap, THP and the like as the study wants them, and take DAMON from DAMON_STAT."""
        damon_stat.switch_off(self._log)
        self._swap = machine_setup.prepare(wanted, self._log)

    def run(self, **spec: Any) -> dict[str, Any]:
        """Run a workload once and return the raw measurements."""
        return Run(spec, self._log, self._folders, self._swap, self._interrupted, self._link.send)()

    def observe(self, **spec: Any) -> dict[str, Any]:
        """Measure a running process for a while under schemes or none; they stay until the next call changes them."""
        if self._live is None:
            self._live = Live(spec["pid"], self._log, self._swap, self._interrupted, self._link.send)
        return self._live.observe(spec)

    def apply(self, service: str = SERVICE, **spec: Any) -> dict[str, Any]:
        """Put a policy on processes and keep it there until `stop`; several by their names."""
        if service in self._services:
            raise errors.MachineBusy(f"this agent keeps a policy by the name '{service}' already")
        with_scheme = [other for other, kept in self._services.items() if kept.has_scheme]
        if spec["context"] is not None and with_scheme:
            raise errors.MachineBusy(
                f"'{with_scheme[0]}' has DAMON on this machine, and damoos keeps one kdamond at a time; stop that first"
            )
        kept = self._services[service] = Service(spec, self._log, service, self._interrupted)
        swap_bytes = proc.meminfo()["SwapTotal"]
        return {"pid": kept.pid, "started": kept.started, "accepted": kept.accepted, "swap_bytes": swap_bytes}

    def _kept(self, service: str) -> Service:
        if service not in self._services:
            raise errors.MachineError(f"no policy '{service}' is in service")
        return self._services[service]

    def commit(self, context: dict[str, Any], service: str = SERVICE) -> dict[str, str]:
        """Change the schemes of `apply` without ending what runs under them."""
        return self._kept(service).commit(context)

    def status(self, service: str = SERVICE) -> dict[str, Any]:
        """State of what `apply` started; ``in_service`` tells whether it was this agent that did."""
        if service not in self._services:
            return {"in_service": False, "alive": False}
        return {"in_service": True, **self._services[service].status()}

    def renew(self, service: str = SERVICE) -> bool:
        """Put the policy of `apply` on its processes again; False if it was another agent that applied it."""
        if service not in self._services:
            return False
        self._services[service].renew()
        return True

    def pause(self, service: str = SERVICE) -> None:
        """Have the policy of `apply` do nothing for a while."""
        self._kept(service).pause()

    def resume(self, service: str = SERVICE) -> None:
        """Have it do again what it did before `pause`."""
        self._kept(service).resume()

    def regions(self, service: str = SERVICE) -> list[tuple[int, int, int, int]]:
        """Regions that the schemes of `apply` match now."""
        return self._services[service].regions() if service in self._services else []

    def stop(self, service: str = SERVICE) -> None:
        """Undo `apply`; what cannot be undone is tried again by the next call."""
        if kept := self._services.get(service):
            kept.stop()
            del self._services[service]

    def leave(self) -> list[str]:
        """Undo everything but the policies that are to stay in force without an agent; nothing but `bye` may follow."""
        for name in [name for name, kept in self._services.items() if not kept.stays]:
            self.stop(name)
        self._is_left = True
        self._end_live()
        return self._log.leave()

    def bye(self) -> list[str]:
        """Undo everything; the last call."""
        if self._is_left:
            return self._log.leave()
        for name in list(self._services):
            self.stop(name)
        self._end_live()
        return self._log.undo()

    def _end_live(self) -> None:
        if self._live:
            self._live.end()
            self._live = None


def look() -> dict[str, Any]:
    """What can be known of a machine without having it: nothing is locked, written or waited for."""
    return {
        "kernel": os.uname().release,
        "hostname": os.uname().nodename,
        "boot_id": proc.boot_id(),
        "mem_bytes": proc.meminfo()["MemTotal"],
        "uid": os.geteuid(),
        "damon_in_use": _damon_in_use(),
        "has_damon_stat": (Path("/") / DAMON_STAT).exists(),
        "damon_stat": damon_stat.readings(),
    }


def _damon_in_use() -> str:
    try:
        return interface.used_by_others()
    except errors.MachineError as error:  # it takes root to tell
        return str(error)


def _answer(agent: Agent, call: Call) -> dict[str, Any]:
    try:
        if call["call"].startswith("_") or not hasattr(agent, call["call"]):
            raise errors.MachineError(f"the agent has no call '{call['call']}'")
        method: Callable[..., Any] = getattr(agent, call["call"])
        return {"id": call["id"], "result": method(**call.get("args", {}))}
    except errors.DamoosError as error:
        return {"id": call["id"], "error": errors.to_wire(error)}
    except Exception as error:
        return {"id": call["id"], "error": errors.to_wire(errors.MachineError(f"{type(error).__name__}: {error}"))}


def _start_guardian(log: UndoLog) -> None:
    """Fork a process that outlives a killed agent just long enough to undo what it had changed."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(reader)
        return  # the writer stays open for as long as the agent lives, and nobody ever writes to it
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.close(writer)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.read(reader, 1)
    log.load()
    log.leave()
    os._exit(0)


def main() -> int:
    """Serve one controller.

    The words of the command line are ``DEAD_MAN_S TOKEN FORMER...``: a secret of this connection, and those of its
    controller's connections that broke. Without words, an agent that was started by hand. The word ``look`` prints
    what `look` tells and ends.
    """
    if sys.argv[1:] == [LOOK]:
        print(json_line(look()))
        return 0
    dead_man_s = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    token, *former = sys.argv[2:] or [""]
    try:
        log = _take_machine(token, former)
    except errors.DamoosError as error:
        Link(dead_man_s).send({"id": 0, "error": errors.to_wire(error)})
        return 1
    strays = children.Strays()
    link = Link(dead_man_s)
    agent = Agent(link, log)
    signal.signal(signal.SIGTERM, lambda *_: link.give_up())
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    link.send({"id": 0, "result": {"pid": os.getpid()}})
    while (call := link.calls.get()) is not None:
        answer = _answer(agent, call)
        if call["call"] == "bye":
            strays.end()
        link.send(answer)
        if call["call"] == "bye":
            return 0
    link.is_heard = True
    agent.leave()
    strays.end()
    return 0


def _take_machine(token: str, former: Sequence[str]) -> UndoLog:
    """Become the machine's one agent, and undo what an agent has left that was killed together with its guardian.

    Raises
    ------
    MachineBusy : the agent of another connection works here
    MachineError : another user made the folder of the lock
    """
    folder = state_folder()
    owner.lock(folder, token, former, BUSY_S, MAKE_WAY_S)
    path = folder / "undo.json"
    if os.geteuid() != 0:  # what outlives its process is changed by root only, so there is nothing here to believe
        path.unlink(missing_ok=True)
    log = UndoLog(path)
    log.undo()
    remove_leftovers(log)
    _start_guardian(log)
    return log


if __name__ == "__main__":
    sys.exit(main())
