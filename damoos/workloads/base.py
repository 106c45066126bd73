"""A workload as the runner sees it, and its kinds: a program or server, a pattern of accesses, a running process."""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from damoos.common import user_file
from damoos.common.unpack import MALFORMED, parsed
from damoos.errors import ConfigError, MeasurementError
from damoos.model.roles import ROLES
from damoos.ownership import objection_to_use
from damoos.workloads.metrics import Metric
from damoos.workloads.tools import tool

Copy = Callable[[Path], str]
Words = tuple[str, ...]


@dataclass(frozen=True)
class Tuning:
    """What tuning a workload starts from.

    Parameters
    ----------
    low_us, high_us : int, microseconds
        Range of ``min_age``.
    manual_us : int, microseconds
        ``min_age`` of the manual scheme that the tuned one is compared with.
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
    ``call`` is the agent's call that runs it. ``has_runtime`` is False where a run lasts for as long as it is told to,
    so that a slowdown cannot be seen in its runtime. ``containers`` is empty where its program runs alone. A page fault
    takes it the time of ``memory_scale`` page faults.
    """

    name: str
    variant: str = "real"
    note: str = ""
    reports: tuple[str, ...] = ()
    call: str = "run"
    has_runtime: bool = True
    containers: tuple[Container, ...] = ()
    memory_scale: int = 1
    tuning: Tuning

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles of the workload's containers."""
        return tuple(role for role in ROLES if any(container.role == role for container in self.containers))

    @abstractmethod
    def spec(self, copy: Copy, vcpus: int = 1, arch: str = "") -> dict[str, Any]:
        """What the agent is to run, see `damoos.agent`.

        Parameters
        ----------
        copy : callable
            Brings a file to the machine and gives its path there.
        vcpus : int
            CPUs of the machine.
        arch : str
            Its ``uname -m``; this host's if it is empty.
        """

    def argv(self, copy: Copy, vcpus: int = 1, arch: str = "") -> list[str]:
        """Its command line on the machine."""
        return list(self.spec(copy, vcpus, arch)["argv"])

    def metrics(self, raw: Mapping[str, Any]) -> dict[str, float]:
        """Metrics that the workload itself reports, from what the agent says of a run; names carry their units.

        Raises
        ------
        MeasurementError : the output lacks what it should report
        """
        return {}

    @property
    @abstractmethod
    def identity(self) -> str:
        """Text that tells whether two studies ran the same thing."""


@dataclass(frozen=True)
class Load:
    """What works on a server while it is measured.

    Parameters
    ----------
    argv : tuple of str
        The load generator; its end is the end of the measurement.
    ready : tuple of str
        A command that succeeds once the server does its work; empty to begin once it listens.
    warm_up : tuple of tuple of str
        Commands between the two, not measured.
    address : str or None
        Where it reaches the server, see `damoos.workloads.catalog.Load`.
    """

    argv: Words
    ready: Words = ()
    warm_up: tuple[Words, ...] = ()
    address: str | None = None


@dataclass(frozen=True)
class Container:
    """What runs beside a program, or the program itself, in a cgroup of its own.

    Parameters
    ----------
    name : str
    role : str
        One of `damoos.model.roles.ROLES`.
    argv : tuple of str or None
        Its command line; None for the workload's own program.
    env : mapping
        Environment variables to set.
    memory_limits : mapping of str to int, bytes
        By the names of the files of its cgroup.
    policy : str or None
        A rule in user space for it alone, or ``none``; None for that of the run.
    """

    name: str
    role: str
    argv: Words | None
    env: Mapping[str, str] = field(default_factory=dict)
    memory_limits: Mapping[str, int] = field(default_factory=dict)
    policy: str | None = None


@dataclass(frozen=True)
class Program:
    """A program, and how it is run.

    Its words may hold ``{vcpus}``, the machine's CPUs; ``{kvload}`` or ``{mempat}``, a program of damoos's that is
    brought along; and ``{file:NAME}``, a file beside the workload's, brought along, too.

    Parameters
    ----------
    argv : tuple of str
    env : mapping
        Environment variables to set.
    stdin : str or None
        File that it reads, relative to the folder in which it runs.
    setup : tuple of tuple of str
        Commands that fill that folder, once for all runs.
    load : Load or None
        For a server.
    metrics : mapping of str to Metric
    folder : Path or None
        The workload file's: of this host, only files in it are brought along, those that ``{file:NAME}`` and a relative
        path as the program's name stand for. None for a command line, which names any file.
    containers : tuple of Container
        What runs beside it, and itself; empty where it runs alone.
    user : str or None
        Account of the machine as which all of it runs where the agent is root.
    network : {"host", "own"}
        Where its ports are.
    """

    argv: Words
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str | None = None
    setup: tuple[Words, ...] = ()
    load: Load | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    folder: Path | None = None
    containers: tuple[Container, ...] = ()
    user: str | None = None
    network: str = "host"


class ProgramWorkload(Workload):
    """A program with its arguments, or a server with its load.

    A relative path (``./prog``) as the program's name is a file of this host, if there is one, and is brought along: in
    the folder of the workload's file, or where damoos runs for a command line. Any other name is looked up on the
    machine.
    """

    def __init__(self, name: str, program: Program, tuning: Tuning) -> None:
        self.name = name
        self._program = program
        self.tuning = tuning
        self.reports = tuple(program.metrics)
        self.containers = program.containers

    def spec(self, copy: Copy, vcpus: int = 1, arch: str = "") -> dict[str, Any]:
        """All words filled in, files brought over."""
        program, brought = self._program, dict[str, None]()

        def bring(path: Path) -> str:
            there = copy(path)
            brought[there] = None
            return there

        def filled(words: Sequence[str]) -> list[str]:
            return [self._filled(word, bring, vcpus, arch) for word in words]

        argv = filled(program.argv)
        if own := self._own_program(argv[0]):
            argv[0] = bring(own)
        load = program.load
        return {
            "argv": argv,
            "env": dict(program.env),
            "stdin": program.stdin and self._filled(program.stdin, bring, vcpus, arch),
            "setup": [filled(words) for words in program.setup],
            "files": {name: metric.file for name, metric in program.metrics.items() if metric.file},
            "load": load
            and {
                "argv": filled(load.argv),
                "ready": filled(load.ready),
                "warm_up": [filled(words) for words in load.warm_up],
                "address": load.address,
            },
            **({"containers": [self._container(one, filled) for one in self.containers]} if self.containers else {}),
            "user": program.user,
            "network": program.network,
            "brought": list(brought),
        }

    def _own_program(self, word: str) -> Path | None:
        """The file of this host that the program's name stands for; None for a name on the machine.

        Raises
        ------
        ConfigError : it is outside of the workload file's folder
        """
        if "/" not in word or Path(word).is_absolute():
            return None
        folder = self._program.folder
        path = (folder or Path()) / word
        if not path.is_file():
            return None
        if folder is not None:
            inside(path, folder, f"workload '{self.name}': program '{word}'")
        return path

    def _container(self, container: Container, filled: Callable[[Sequence[str]], list[str]]) -> dict[str, Any]:
        return {
            "name": container.name,
            "role": container.role,
            "argv": container.argv and filled(container.argv),
            "env": dict(container.env),
            "memory_limits": dict(container.memory_limits),
            "policy": container.policy,
        }

    def _filled(self, word: str, copy: Copy, vcpus: int, arch: str) -> str:
        def fill(found: re.Match[str]) -> str:
            name, file = found.groups()
            if name == "vcpus":
                return str(vcpus)
            if name in TOOLS:
                return copy(tool(name, arch))
            return copy(self._beside(file))

        return _PLACEHOLDER.sub(fill, word)

    def _beside(self, name: str) -> Path:
        """The file that ``{file:NAME}`` stands for.

        Raises
        ------
        ConfigError : there is none, or it is outside of the workload file's folder
        """
        folder = self._program.folder or Path()
        if not (folder / name).is_file():
            raise ConfigError(f"workload '{self.name}': there is no file {folder / name}")
        return inside(folder / name, folder, f"workload '{self.name}': '{{file:{name}}}'")

    def metrics(self, raw: Mapping[str, Any]) -> dict[str, float]:
        """Each declared metric; one that is missing fails the run."""
        output = raw["stdout"], raw["stderr"], raw.get("files", {})
        return {name: metric.read(name, *output) for name, metric in self._program.metrics.items()}

    @property
    def identity(self) -> str:
        """All that is run."""
        program = self._program
        load = program.load and [program.load.argv, program.load.ready, program.load.warm_up]
        words = [program.argv, sorted(program.env.items()), program.stdin, program.setup, load]
        text = json.dumps([*words, *(asdict(container) for container in program.containers)])
        files = sorted({match[2] for match in _PLACEHOLDER.finditer(text) if match[2]})
        return json.dumps([text, {name: _hash_of(self._beside(name)) for name in files}])


def _hash_of(file: Path) -> str:
    return hashlib.sha256(user_file.read_bytes(file)).hexdigest()


def inside(path: Path, folder: Path, what: str) -> Path:
    """A file that a workload file names, and that is in the folder of the workload file once links are followed.

    What a workload file names is read here and copied to the machine, so somebody else's file must not name any.

    Parameters
    ----------
    what : str
        What names it, for an error message.

    Raises
    ------
    ConfigError : it is elsewhere, or another user can put another file in its place
    """
    if folder.resolve() not in path.resolve().parents:
        raise ConfigError(
            f"{what} is {path.resolve()}, outside of the workload file's folder {folder.resolve()}: put the file beside"
            " the workload file, or name the program on the command line with --command"
        )
    # It is read again at each run: nobody else may have put another file, or a link, in its place by then.
    if objection := objection_to_use(path, may_be_sudoers=True):
        raise ConfigError(
            f"{what} is {path}, which {objection}, so it could become another file while damoos runs: copy the workload"
            " file and what it names into a folder of your own"
        )
    return path


TOOLS = ("mempat", "kvload")
_PLACEHOLDER = re.compile(r"\{(vcpus|mempat|kvload|file:([^}]+))\}")


class PatternWorkload(Workload):
    """A fixed amount of memory accesses after a pattern file, made by ``mempat``.

    Parameters
    ----------
    pattern : Path
    rate : int
        Accesses that stand for one millisecond of a phase.
    repeats, once : int
        How often the phases are gone through, and how many of them only the first time.
    paced : bool
        Whether it waits where the accesses are ahead of the phase's time.
    sleeps : bool
        Whether it sleeps, after accesses of some milliseconds, for the time that they stand for.
    memory_scale : int
        How many pages of a program each of its pages stands for. Where it sleeps, it takes the time of all of them for
        a page fault from swap.
    compression : float or None
        By which factor compressors make its memory smaller; None for as the accesses leave it.
    """

    reports = ("ops", "ops_per_s")

    def __init__(
        self,
        name: str,
        pattern: Path,
        rate: int,
        repeats: int,
        once: int,
        tuning: Tuning,
        variant: str = "real",
        note: str = "",
        paced: bool = False,
        sleeps: bool = False,
        memory_scale: int = 1,
        compression: float | None = None,
    ) -> None:
        self.name = name
        self._pattern = pattern
        self.memory_scale = memory_scale if sleeps else 1
        # Of 8 ms at a time: each time it wakes up costs an emulated guest's host half a millisecond.
        waits = ["-p"] if paced else ["-w", "-b", "8", "-x", str(self.memory_scale)] if sleeps else []
        filled = [] if compression is None else ["-c", f"{compression:g}"]
        self._options = [*waits, *filled, "-r", str(rate), "-n", str(repeats), "-o", str(once)]
        self.tuning = tuning
        self.variant = variant
        self.note = note

    def spec(self, copy: Copy, vcpus: int = 1, arch: str = "") -> dict[str, Any]:
        """``mempat`` with its pattern, both brought over."""
        return {"argv": [copy(tool("mempat", arch)), *self._options, copy(self._pattern)], "env": {}}

    def metrics(self, raw: Mapping[str, Any]) -> dict[str, float]:
        """Operations and their rate, as ``mempat`` reports them."""
        try:
            report = parsed(raw["stdout"])
            return {"ops": float(report["ops"]), "ops_per_s": float(report["ops_per_s"])}
        except MALFORMED as error:
            raise MeasurementError(f"mempat printed no report: {error!r}") from None

    @property
    def identity(self) -> str:
        """Options and the hash of the pattern."""
        return json.dumps([self._options, _hash_of(self._pattern)])


@dataclass(frozen=True)
class Reading:
    """A metric of a running process: a command, a file or a URL that gives a number whenever it is asked.

    ``key`` tells which number, see `damoos.agent.metric_source.number_in`; empty where there is one.
    """

    name: str
    source: str
    argv: Words
    key: str = ""


class LiveWorkload(Workload):
    """A process that runs already, measured one window after the other and never restarted.

    Parameters
    ----------
    pid : int
        On the machine.
    readings : sequence of Reading
        Read with every sample of a window; a run's metric is their mean.
    settle_s : float, seconds
        Discarded at the start of each window, beyond the age that the scheme waits for.
    tuning : Tuning
        Its ``unit_work_s`` is the length of a window.
    """

    call = "observe"
    has_runtime = False

    def __init__(self, pid: int, readings: Sequence[Reading], settle_s: float, tuning: Tuning) -> None:
        self.name = f"pid-{pid}"
        self._pid = pid
        self._readings = tuple(readings)
        self._settle_s = settle_s
        self.tuning = tuning
        self.reports = tuple(reading.name for reading in readings)

    def spec(self, copy: Copy, vcpus: int = 1, arch: str = "") -> dict[str, Any]:
        """The window."""
        return {
            "pid": self._pid,
            "settle_s": self._settle_s,
            "window_s": self.tuning.unit_work_s,
            "metrics": [[reading.name, reading.source, list(reading.argv), reading.key] for reading in self._readings],
        }

    def argv(self, copy: Copy, vcpus: int = 1, arch: str = "") -> list[str]:
        """Refused: nothing is started."""
        raise ConfigError(
            f"process {self._pid} runs already, so it is not started;"
            " put a scheme on it with 'damoos apply STUDY --on pid:PID'"
        )

    def metrics(self, raw: Mapping[str, Any]) -> dict[str, float]:
        """Means of the readings."""
        means = {}
        for reading in self._readings:
            values = raw["readings"].get(reading.name) or []
            if not values:
                raise MeasurementError(f"metric '{reading.name}' was never read")
            means[reading.name] = sum(values) / len(values)
        return means

    @property
    def identity(self) -> str:
        """The process and how it is measured."""
        return json.dumps(
            [
                self._pid,
                [[reading.name, reading.source, reading.argv, reading.key] for reading in self._readings],
                self._settle_s,
            ]
        )
