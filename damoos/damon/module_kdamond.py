"""A kdamond that one of the kernel's modules runs: switched on with its parameters, and put back to what it was.

It is one more interface to DAMON: a module brings its own scheme, on all of the machine's memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from damoos.damon.files import read, write
from damoos.damon.kdamond import Kdamond
from damoos.damon.modules import MODULE_WORDS, PARAMETERS, STATS_OF
from damoos.damon.scheme import Context
from damoos.damon.settings import lacks
from damoos.damon.stats import DamosStats
from damoos.damon.sysfs import SysfsKdamond
from damoos.errors import MachineError, UnsupportedError


class ModuleKdamond(Kdamond):
    """That of a module; `interface` is the module's name."""

    def __init__(self, root: Path = Path("/"), interface: str = "damon_reclaim") -> None:
        super().__init__(root)
        self.interface = interface
        self._files = root / PARAMETERS.format(interface)

    @classmethod
    def is_here(cls, root: Path) -> bool:
        """Whether the kernel has any of the modules."""
        return any((root / PARAMETERS.format(name)).exists() for name in MODULE_WORDS)

    def used_by_others(self) -> str:
        """A kdamond of sysfs's, or the module switched on by somebody else."""
        if not self._files.exists():
            raise UnsupportedError(f"this kernel has no module {self.interface}")
        sign = SysfsKdamond(self._root).used_by_others() if SysfsKdamond.is_here(self._root) else ""
        return sign or (f"{self.interface} is enabled" if read(self._files / "enabled") == "Y" else "")

    def _former(self) -> dict[str, Any]:
        names = (name for name in MODULE_WORDS[self.interface] if (self._files / name).exists())
        return {"parameters": {name: read(self._files / name) for name in names}}

    def _make(self) -> None:
        """The module is there already."""

    def _take_away(self, former: Mapping[str, Any]) -> None:
        for name, value in former.get("parameters", {}).items():
            if read(self._files / name) != value:
                write(self._files / name, value)

    def _write(self, context: Context) -> None:
        assert context.module
        for name, value in context.module.written().items():
            if not (self._files / name).exists():
                raise lacks(f"module/{self.interface}/{name}")
            write(self._files / name, value)

    def set_targets(self, pids: list[int]) -> None:
        """A module watches all memory."""

    def _start(self) -> None:
        write(self._files / "enabled", "Y")

    def _stop(self) -> None:
        write(self._files / "enabled", "N")

    def _commit(self) -> None:
        write(self._files / "commit_inputs", "Y")

    def is_on(self) -> bool:
        """Whether the module's kdamond runs now."""
        return read(self._files / "enabled") == "Y" and self.pid != -1

    @property
    def pid(self) -> int:
        """Process id of the kdamond's thread, or -1 when it does not run."""
        return int(read(self._files / "kdamond_pid"))

    def _stats(self) -> list[DamosStats]:
        stats = []
        for tried, applied, exceeds in STATS_OF[self.interface]:
            names = (f"nr_{tried}", f"bytes_{tried}", f"nr_{applied}", f"bytes_{applied}", f"nr_{exceeds}")
            stats.append(DamosStats(*(int(read(self._files / name)) for name in names)))
        return stats

    def regions(self) -> list[tuple[int, int, int, int]]:
        """Not to be had here."""
        raise UnsupportedError(f"module {self.interface} does not report its regions; a scheme does")

    def accepted(self) -> dict[str, str]:
        """All of the module's parameters, read back.

        Raises
        ------
        MachineError : the kernel holds another value than was written
        """
        assert self._context
        assert self._context.module
        taken: dict[str, str] = self._former()["parameters"]
        for name, value in self._context.module.written().items():
            if taken[name] != value:
                raise MachineError(f"{self.interface}: the kernel holds {name}={taken[name]} where {value} was written")
        return {f"module/{self.interface}/{name}": value for name, value in taken.items()}

    def features(self) -> dict[str, list[str]]:
        """Nothing that a probe asks: a module is what it is."""
        return {}
