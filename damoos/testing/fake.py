"""A machine that is not there: the whole loop runs on it in no time, the same for the same seed.

It answers an agent's calls with numbers from a response curve. What it gives is for tests of the loop, never a result.
"""

from __future__ import annotations

import base64
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from damoos.agent.meter import SAMPLE_COLUMNS
from damoos.damon.damo_json import context_from_json
from damoos.damon.filters import FILTER_TYPES
from damoos.damon.modules import MODULE_WORDS
from damoos.damon.pattern import ACTIONS
from damoos.damon.quotas import GOAL_METRICS, TUNERS
from damoos.damon.settings import EVERY_FILE
from damoos.errors import DamoosError
from damoos.machines.base import Machine, Session, Sink
from damoos.recordings.recording import Recording

Curve = Callable[[float], tuple[float, float]]
RUNTIME_S = 10.0
RSS_BYTES = 100 << 20
# What huge pages do to runtime and RSS where all memory has them, and the share of it that has under "madvise".
THP_GAIN, THP_BLOAT, MADVISED = 0.2, 0.5, 0.4
# What paging costs, microseconds per page.
PAGEOUT_US, FAULT_US = 2.0, 40.0


def cliff_and_fall(min_age_s: float) -> tuple[float, float]:
    """A common response: thrashing below 3 s, then a saving that shrinks. Returns (slowdown, saving)."""
    return (0.5, 0.7) if min_age_s < 3 else (0.02, max(0.0, 0.6 - min_age_s / 100))


class FakeMachine(Machine):
    """Behaves after a curve.

    Parameters
    ----------
    curve : callable
        ``min_age`` in seconds to (slowdown, RSS saving), both fractions.
    noise : float
        Relative standard deviation of runtime and RSS.
    failures : dict of int to DamoosError
        Errors that replace the n-th run that is asked for, counted from 0.
    seed : int
    recording : Recording or None
        What DAMON sees in a run that is recorded, of one target; None for a machine that cannot record.
    damon_in_use : str
        A sign that another program uses the machine's DAMON; empty where none does.
    left_behind : sequence of str
        What an earlier agent could not undo.
    """

    name = "fake"
    description = "no machine: numbers from a curve"
    kernel = "6.12.0-fake"
    clock = "none"

    def __init__(
        self,
        curve: Curve = cliff_and_fall,
        noise: float = 0.0,
        failures: dict[int, DamoosError] | None = None,
        seed: int = 0,
        recording: Recording | None = None,
        damon_in_use: str = "",
        left_behind: Sequence[str] = (),
        locks: bool = True,
    ) -> None:
        self.curve = curve
        self.noise = noise
        self.failures = failures or {}
        self.seed = seed
        self.recording = recording
        self.damon_in_use = damon_in_use
        self.left_behind = left_behind
        self.locks = locks
        self.nr_runs = 0
        self.nr_opened = 0
        self.nr_closed = 0

    def open(self, say: Callable[[str], None] = lambda _: None) -> FakeSession:
        """Count the lease."""
        self.nr_opened += 1
        return FakeSession(self)

    def begin_run(self, number: int) -> None:
        """What happens before the n-th run gives its numbers.

        Raises
        ------
        DamoosError : the one that was asked for
        """
        if number in self.failures:
            raise self.failures[number]

    def dice(self, number: int, document: dict[str, Any] | None) -> np.random.Generator:
        """The chance in the n-th run, which is made under a document's schemes."""
        return np.random.default_rng([self.seed, number])


class FakeSession(Session):
    """A lease of a fake machine."""

    def __init__(self, machine: FakeMachine) -> None:
        self._machine = machine
        self.facts = {
            "kernel": machine.kernel,
            "accel": "fake",
            "clock": machine.clock,
            "vcpus": 1,
            "mem_bytes": 1 << 30,
        }
        self.facts |= {
            "arch": os.uname().machine,
            "damon_in_use": machine.damon_in_use,
            "swap_bytes": 1 << 28,
            "has_thp": True,
        }
        self.facts["left_behind"] = list(machine.left_behind)
        self.facts["metrics"] = [
            "cgroup_avg_bytes", "memory_avg_bytes", "zram_avg_bytes", "net_avg_bytes", "anon_avg_bytes",
            "file_avg_bytes", "kernel_avg_bytes", "refaults_per_s",
            "psi_some_us", "psi_full_us", "psi_io_some_us", "psi_io_full_us",
        ]  # fmt: skip
        if machine.recording:
            self.facts["records"] = "tried_regions"
        self.agent = FakeAgent(machine, self.facts)  # type: ignore[assignment]

    def copy(self, path: Path) -> str:
        """Pretend."""
        return str(path)

    def close(self) -> None:
        """Count."""
        self._machine.nr_closed += 1


_STATE = {
    "uid": 0, "mem_available_bytes": 1 << 30, "swaps": ["/dev/zram0"], "cgroup_v2": True, "cgroups": True, "psi": True,
    "emulated": True, "clocksource": "fake", "nodes": [], "wall_s": 0.0, "boot_s": 0.0,
}  # fmt: skip


_REFAULTS = ("workingset_refault_anon", "workingset_refault_file")
_STEADY = {
    "a_s": [0.1, 0.1001, 0.1, 0.1001], "b_s": [0.1001, 0.1, 0.1, 0.1001], "elapsed_s": 1.0, "steal_s": 0.0,
    "others_cpu_s": 0.0,
}  # fmt: skip


class FakeAgent:
    """Answers as the real agent's `call` does."""

    def __init__(self, machine: FakeMachine, facts: dict[str, Any]) -> None:
        self._machine = machine
        self._facts = facts

    def cancel(self) -> None:
        """A run takes no time: there is none to end."""

    def stream(self, sink: Sink, name: str, **args: Any) -> Any:
        """Answer one call, and before it send what DAMON sees."""
        sent = [*_looks(self._machine.recording)] if args.get("record") and self._machine.recording else []
        for message in sent:
            sink(message)
        answer = self.call(name, **args)
        if not sent:
            return answer
        return answer | {"began_s": 0.0, "record": {"sent_bytes": 40 * len(sent), "lost_events": 0, "full": False}}

    def call(self, name: str, **args: Any) -> Any:
        """Answer one call."""
        if name in ("run", "observe"):
            locked = RSS_BYTES / 4 if self._machine.locks and "program_env" in args else 0
            answer = self._run(args)
            for row in answer["samples"]:
                row[SAMPLE_COLUMNS.index("unevictable_bytes")] = locked
            return answer
        answers: dict[str, Any] = {
            "facts": self._facts,
            "probe": {
                "interfaces": ["sysfs"],
                "operations": ["vaddr", "paddr"],
                "actions": list(ACTIONS),
                "filters": list(FILTER_TYPES),
                "goals": list(GOAL_METRICS),
                "tuners": list(TUNERS),
                "modules": list(MODULE_WORDS),
                "files": [
                    *sorted(EVERY_FILE),
                    *(f"module/{m}/{w}" for m, words in MODULE_WORDS.items() for w in words),
                ],
            },
            "tryout": {action: 1 << 20 for action in args.get("actions", ())},
            "seen_accesses": {"accessed": 1.0, "idle": 0.0},
            "which": None,
            "clean": [],
            "prepare": None,
            "state": _STATE,
            "instruction_rate": None,
            "steadiness": _STEADY,
            "swap_cost": {"pageout_us": PAGEOUT_US, "fault_us": FAULT_US, "rounds": []},
            "apply": {"pid": 1, "started": 1, "swap_bytes": 1 << 28},
            "status": _in_service(),
            "stop": {},
            "leave": {},
        }
        return answers[name]

    def _run(self, args: dict[str, Any]) -> dict[str, Any]:
        document, abort_s, thp = args["context"], args.get("abort_s"), args.get("thp")
        limits, rule = args.get("memory_limits", {}), args.get("controller")
        machine = self._machine
        number, machine.nr_runs = machine.nr_runs, machine.nr_runs + 1
        machine.begin_run(number)
        slowdown, saving = 0.0, 0.0
        schemes = () if document is None else context_from_json(document).schemes
        damos = [{"nr_tried": 9, "sz_tried_bytes": 9 << 20, "nr_applied": 8, "sz_applied_bytes": 8 << 20}] * len(
            schemes
        )
        if schemes and schemes[0].action not in ("hugepage", "nohugepage"):
            slowdown, saving = machine.curve(schemes[0].pattern.min_age_us / 1e6)
        if rule:  # the more it takes at once, the more it saves and costs
            taken = next((rule[key] for key in ("ratio", "max_probe", "promotions") if key in rule), 0.001)
            slowdown, saving = 5 * taken, 5 * taken**0.5 / 2
        huge = {"always": 1.0, "madvise": MADVISED if schemes else 0.0}.get(thp or "never", 0.0)
        slowdown, saving = slowdown - THP_GAIN * huge, saving - THP_BLOAT * huge
        if (limit_bytes := limits.get("memory.max", limits.get("memory.high"))) is not None:  # the rest is paged always
            missing = max(0.0, 1 - saving - limit_bytes / RSS_BYTES)
            slowdown, saving = slowdown + missing, saving + missing
        steered = [container for container in args.get("containers", ()) if container["controller"]]
        saving += 0.1 * len(steered)  # each gives back a tenth of the whole
        random = machine.dice(number, document)
        runtime_s = RUNTIME_S * (1 + slowdown) * (1 + machine.noise * random.standard_normal())
        rss = RSS_BYTES * (1 - saving) * (1 + machine.noise * random.standard_normal())
        aborted = abort_s is not None and runtime_s > abort_s
        if aborted:
            assert abort_s is not None
            runtime_s = abort_s
        answer: dict[str, Any] = {
            "exit_status": -9 if aborted else 0,
            "aborted": aborted,
            "runtime_s": runtime_s,
            "user_s": runtime_s / (1 + slowdown),
            "system_s": 0.0,
            "counters": {
                "pswpin": 0,
                "pswpout": 0,
                "pgmajfault": 0,
                "swap_written_bytes": 0,
                "workingset_refault_anon": 0,
                "workingset_refault_file": 0,
            },
            "peak_bytes": rss,
            "psi_us": {"some": 0, "full": 0, "io_some": 0, "io_full": 0, "cpu_some": 0},
            "sample_columns": SAMPLE_COLUMNS,
            "samples": [
                [at_s, rss, rss, rss, 0, 1, rss * huge, 1e6 * at_s * max(slowdown, 0.0), 0, rss, rss, 0, rss, *[0] * 10]
                for at_s in (runtime_s * nth / 10 for nth in range(10))
            ],
            "damos": damos,
            "sampling_cpu_s": 0.001 * runtime_s,
            "oom_kills": 0,
            "swapped_to": {"/dev/zram0": int(RSS_BYTES - rss)} if rss < RSS_BYTES else {},
            "huge_pages": {"mode": "madvise"},
            "kdamond_cpu_s": 0.01 * runtime_s if document else 0.0,
            "accepted": {},
            **({"controller": {"cpu_s": 0.01, "columns": ["t_s"], "decisions": [[1.0]]}} if rule else {}),
            "stdout": '{"ops": 1000, "ops_per_s": 100}',  # as mempat would say
            "stderr": "",
            "readings": {},
        }
        roles = [container["role"] for container in args.get("containers", ())]
        return answer | ({"roles": {role: _share(answer, 1 / len(roles)) for role in roles}} if roles else {})


def _in_service() -> dict[str, Any]:
    """A policy in service, that does nothing to processes which do nothing; of this computer's clock."""
    counters = dict.fromkeys(("pswpin", "pgmajfault", "swap_written_bytes", *_REFAULTS), 0)
    reading = {
        "at_s": time.monotonic(), "is_group": True, "psi_us": dict.fromkeys(("some", "full", "io_some", "cpu_some"), 0),
        "counters": counters, "memory_bytes": RSS_BYTES, "swap_bytes": 0, "compressed_bytes": 0, "metrics": {},
        "ages_s": {}, "missing": {},
    }  # fmt: skip
    return {
        "in_service": True, "alive": True, "in_force": True, "paused": False, "changed": [], "restarts": 0,
        "for_s": 1.0, "pid": 1, "nr_processes": 1, "rss_bytes": RSS_BYTES, "damos": [], "reading": reading,
    }  # fmt: skip


def _share(answer: dict[str, Any], part: float) -> dict[str, Any]:
    """What one role has of a run's memory; its times are those of the run."""
    is_size = [column.endswith("_bytes") for column in answer["sample_columns"]]
    samples = [
        [value * part if size else value for value, size in zip(row, is_size, strict=True)] for row in answer["samples"]
    ]
    return answer | {"samples": samples, "peak_bytes": answer["peak_bytes"] * part}


def _looks(recording: Recording) -> Iterator[dict[str, Any]]:
    """A recording as the messages of an agent that looks at regions now and then."""
    yield {"event": "record", "begin": {"source": "tried_regions"}}
    table = np.column_stack([recording.start, recording.end, recording.nr_accesses, recording.age])
    for nth, end_s in enumerate(recording.end_s):
        rows = table[recording.first[nth] : recording.first[nth + 1]]
        data = struct.pack("=d", end_s) + rows.astype("<i8").tobytes()
        yield {"event": "record", "data": base64.b64encode(zlib.compress(data)).decode()}
