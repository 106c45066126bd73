"""DAMON's debugfs files, the interface of the kernels that the DAOS paper measured.

There is one context that is always there; ``monitor_on`` starts it. Nothing can be changed while it runs, so a change
stops it and starts it again, and the ages of its regions begin anew. When it stops, it forgets the processes that it
watched, and keeps its schemes with their statistics.

References
----------
Documentation/admin-guide/mm/damon/usage.rst of Linux 6.1, "debugfs Interface"; mm/damon/dbgfs.c
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from damoos.damon.files import read, write
from damoos.damon.kdamond import REMOVE_S, Kdamond
from damoos.damon.quotas import Quotas
from damoos.damon.scheme import Context, Scheme, kernel_pattern
from damoos.damon.settings import check, settings
from damoos.damon.stats import DamosStats
from damoos.errors import MachineError, UnsupportedError

PLACE = "sys/kernel/debug/damon"
# An action's number is its place here; it is not the kernel's own numbering, which has changed.
ACTIONS = ("willneed", "cold", "pageout", "hugepage", "nohugepage", "stat")
OPERATIONS = ("vaddr", "paddr")
# In the order of a line of the schemes file: 18 numbers that are written and 5 that only the kernel writes.
_NR_WRITTEN, _NR_STATS = 18, 5
# What can be said here: what every sysfs takes, too, and nothing that came later.
_OFFERED = {
    "operations": OPERATIONS,
    "actions": ACTIONS,
    "filters": (),
    "goals": (),
    "files": tuple(one.file for one in settings(Context((Scheme("stat"),))) if one.default is None),
    "unknown": (),
}
_PATTERN = ("sz/min", "sz/max", "nr_accesses/min", "nr_accesses/max", "age/min", "age/max")


class DebugfsKdamond(Kdamond):
    """The first context of DAMON's debugfs."""

    interface = "debugfs"

    def __init__(self, root: Path = Path("/")) -> None:
        super().__init__(root)
        self._place = root / PLACE
        self._pids: list[int] = []
        # Since its removal was announced, the switch goes by another name.
        renamed = self._place / "monitor_on_DEPRECATED"
        self._switch = renamed if renamed.exists() else self._place / "monitor_on"

    @classmethod
    def is_here(cls, root: Path) -> bool:
        """Whether debugfs is mounted and has DAMON's folder."""
        return os.path.exists(root / PLACE / "attrs")  # and False for who may not look into debugfs

    def used_by_others(self) -> str:
        """A running kdamond, or one that somebody has prepared."""
        if self.is_on():
            return "monitor_on is on"
        for name in ("target_ids", "schemes"):
            if read(self._place / name):
                return f"{name} is not empty"
        others = sorted(entry.name for entry in self._place.iterdir() if entry.is_dir())
        return f"there is a context '{others[0]}'" if others else ""

    def _former(self) -> dict[str, Any]:
        return {"attrs": read(self._place / "attrs")}

    def _make(self) -> None:
        """The context is there already."""

    def _take_away(self, former: Mapping[str, Any]) -> None:
        write(self._place / "target_ids", "")
        write(self._place / "schemes", "")
        if "attrs" in former:
            write(self._place / "attrs", former["attrs"])

    def _write(self, context: Context) -> None:
        if context.operations not in OPERATIONS:
            raise UnsupportedError(f"this kernel's debugfs has no operations '{context.operations}'")
        check(context, _OFFERED)
        attrs = context.attrs
        lines = [_line(scheme, context) for scheme in context.schemes]
        self._before = self.stats() if self.is_on() else []
        if self.is_on():
            self._stop()
        numbers = (attrs.sample_us, attrs.aggr_us, attrs.update_us, attrs.min_nr_regions, attrs.max_nr_regions)
        write(self._place / "attrs", " ".join(map(str, numbers)))
        write(self._place / "schemes", "\n".join(lines))
        took = [line.split()[:_NR_WRITTEN] for line in read(self._place / "schemes").splitlines()]
        if took != [line.split() for line in lines]:
            raise UnsupportedError("this kernel's debugfs takes schemes in another form than that of Linux 6.1")

    def set_targets(self, pids: list[int]) -> None:
        """Name the processes to watch; a running kdamond learns of them by `commit`."""
        self._pids = list(pids)

    def _write_targets(self) -> None:
        assert self._context is not None
        paddr = self._context.operations == "paddr"
        write(self._place / "target_ids", "paddr" if paddr else " ".join(map(str, self._pids)))
        if self._spans:
            write(self._place / "init_regions", "\n".join(f"0 {start} {end}" for start, end in self._spans))

    def _start(self) -> None:
        self._write_targets()
        write(self._switch, "on")

    def _stop(self) -> None:
        write(self._switch, "off")
        deadline = time.monotonic() + REMOVE_S
        while self.is_on():
            if time.monotonic() > deadline:
                raise MachineError("the kdamond did not stop")
            time.sleep(0.01)

    def _commit(self) -> None:
        """Stop, change the targets, start again: there is no other way here. The schemes keep their statistics."""
        if self.is_on():
            self._stop()
        self._start()

    def is_on(self) -> bool:
        """Whether a kdamond runs; this interface does not tell whose."""
        return read(self._switch) == "on"

    @property
    def pid(self) -> int:
        """Process id of the kdamond's thread, or -1 when it does not run."""
        text = read(self._place / "kdamond_pid")
        return -1 if text == "none" else int(text)

    def _stats(self) -> list[DamosStats]:
        rows = [list(map(int, line.split())) for line in read(self._place / "schemes").splitlines()]
        return [DamosStats(*row[_NR_WRITTEN : _NR_WRITTEN + _NR_STATS]) for row in rows]

    def regions(self) -> list[tuple[int, int, int, int]]:
        """Not to be had here."""
        raise UnsupportedError(
            "this kernel's DAMON (debugfs) does not report its regions; a kernel with DAMON's sysfs does"
        )

    def accepted(self) -> dict[str, str]:
        """What the kernel took, by sysfs's names."""
        assert self._context is not None
        names = [f"intervals/{file}" for file in ("sample_us", "aggr_us", "update_us")]
        names += [f"nr_regions/{file}" for file in ("min", "max")]
        attrs = read(self._place / "attrs").split()
        accepted = {"operations": self._context.operations}
        accepted |= {f"monitoring_attrs/{name}": value for name, value in zip(names, attrs)}
        for index, line in enumerate(read(self._place / "schemes").splitlines()):
            words = line.split()
            accepted[f"schemes/{index}/action"] = ACTIONS[int(words[6])]
            for name, value in zip(_PATTERN, words):
                accepted[f"schemes/{index}/access_pattern/{name}"] = value
        return accepted

    def features(self) -> dict[str, list[str]]:
        """What can be said here; every number of a scheme has been tried by writing one and reading it back."""
        self.configure(Context((Scheme("stat"),)), [])
        return {name: list(words) for name, words in _OFFERED.items()}


def _line(scheme: Scheme, context: Context) -> str:
    """One scheme in the order that mm/damon/dbgfs.c reads."""
    if scheme.action not in ACTIONS:
        raise UnsupportedError(f"this kernel's debugfs has no action '{scheme.action}'")
    numbers = kernel_pattern(scheme.pattern, context.attrs)
    quotas: Quotas = scheme.quotas
    marks = scheme.watermarks
    return " ".join(
        map(
            str,
            (
                *(numbers.min_sz, numbers.max_sz, numbers.min_nr_accesses, numbers.max_nr_accesses),
                *(numbers.min_age, numbers.max_age, ACTIONS.index(scheme.action)),
                *(quotas.time_ms, quotas.sz_bytes, quotas.reset_interval_ms),
                *(quotas.weight_sz_permil, quotas.weight_nr_accesses_permil, quotas.weight_age_permil),
                *(("none", "free_mem_rate").index(marks.metric), marks.interval_us),
                *(marks.high_permil, marks.mid_permil, marks.low_permil),
            ),
        )
    )
