"""A workload as the runner sees it, and the two kinds there are so far."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from damoos.errors import MeasurementError

Copy = Callable[[Path], str]


@dataclass(frozen=True)
class Tuning:
    """What tuning a workload starts from.

    Parameters
    ----------
    low_us, high_us : int, microseconds
        Range of ``min_age``.
    manual_us : int, microseconds
        ``min_age`` of the hand-made scheme that the tuned one is compared with.
    unit_work_s : float, seconds
        How long one run takes about, without a scheme.
    limit_s : float, seconds
        A run that takes longer hangs.
    """

    low_us: int = 0
    high_us: int = 60_000_000
    manual_us: int = 5_000_000
    unit_work_s: float = 60.0
    limit_s: float = 3600.0


class Workload(ABC):
    """A workload.

    ``variant`` is ``real``, or ``model`` for a pattern of memory accesses that stands for another program; ``note``
    is what people must know of it, printed with every study. ``reports`` names the metrics that `metrics` gives.
    """

    name: str
    variant: str = "real"
    note: str = ""
    reports: tuple[str, ...] = ()
    tuning: Tuning

    @abstractmethod
    def argv(self, copy: Copy) -> list[str]:
        """Command line on the machine; ``copy`` brings a file there and gives its path."""

    @property
    def env(self) -> Mapping[str, str]:
        """Environment variables to set."""
        return {}

    def metrics(self, stdout: str) -> dict[str, float]:
        """Metrics that the workload itself reports; names carry their units.

        Raises
        ------
        MeasurementError : the output lacks what it should report
        """
        return {}

    @property
    @abstractmethod
    def identity(self) -> str:
        """Text that tells whether two studies ran the same thing."""


class CommandWorkload(Workload):
    """A program with its arguments.

    A relative path (``./prog``) is a file of this host and is brought along; any other name is looked up there.
    """

    def __init__(self, name: str, argv: list[str], tuning: Tuning, variant: str = "real", note: str = "") -> None:
        self.name = name
        self._argv = argv
        self.tuning = tuning
        self.variant = variant
        self.note = note

    def argv(self, copy: Copy) -> list[str]:
        """Command line, its program brought over where it is a file of ours."""
        program = Path(self._argv[0])
        if "/" in self._argv[0] and not program.is_absolute() and program.is_file():
            return [copy(program), *self._argv[1:]]
        return list(self._argv)

    @property
    def identity(self) -> str:
        """The command line."""
        return json.dumps(self._argv)


class PatternWorkload(Workload):
    """A fixed amount of memory accesses after a pattern file, made by ``mempat``.

    Parameters
    ----------
    program, pattern : Path
    rate : int
        Accesses that stand for one millisecond of a phase.
    repeats, once : int
        How often the phases are gone through, and how many of them only the first time.
    """

    reports = ("ops", "ops_per_s")

    def __init__(
        self,
        name: str,
        program: Path,
        pattern: Path,
        rate: int,
        repeats: int,
        once: int,
        tuning: Tuning,
        variant: str = "real",
        note: str = "",
    ) -> None:
        self.name = name
        self._program = program
        self._pattern = pattern
        self._options = ["-r", str(rate), "-n", str(repeats), "-o", str(once)]
        self.tuning = tuning
        self.variant = variant
        self.note = note

    def argv(self, copy: Copy) -> list[str]:
        """``mempat`` with its pattern, both brought over."""
        return [copy(self._program), *self._options, copy(self._pattern)]

    def metrics(self, stdout: str) -> dict[str, float]:
        """Operations and their rate, as ``mempat`` reports them."""
        try:
            report = json.loads(stdout)
            return {"ops": float(report["ops"]), "ops_per_s": float(report["ops_per_s"])}
        except (ValueError, KeyError) as error:
            raise MeasurementError(f"mempat printed no report: {error!r}") from None

    @property
    def identity(self) -> str:
        """Options and the text of the pattern."""
        return json.dumps([self._options, self._pattern.read_text()])
