"""Workload files: ``workloads/<suite>/<name>.toml``, or any file of the user's own."""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from damoos.agent.regex import groups_in
from damoos.common import addresses, paths, toml_file, user_file
from damoos.common.toml_file import Table
from damoos.errors import ConfigError, UnsupportedError, nearest
from damoos.model.memory_limits import MemoryLimits
from damoos.model.metrics import BUILT_IN
from damoos.model.package_names import PackageName
from damoos.model.quantities import Size, SomeTime, Time, checked
from damoos.units import parse_bytes, parse_time, show_bytes
from damoos.workloads import base
from damoos.workloads.base import PatternWorkload, Program, ProgramWorkload, Tuning, Words, Workload
from damoos.workloads.metrics import Metric
from damoos.workloads.run_paths import RunPath

Which = Callable[[str], str | None]
# Where a suite that 'damoos workloads install' has built lies on every machine.
TREES = Path("/opt/damoos")
WORK_S = 60.0
"""An input is chosen for a run of this time of the machine or less."""
SHARE = 0.8
"""The part of a machine's memory that a chosen input may take."""
FASTER = 8
"""About how many times an emulated CPU's second is of hardware's; sizes were measured on emulated CPUs."""
_TREE = re.compile(r"\{tree:([\w-]+)\}")
_ADDRESS = re.compile(r"127\.0\.0\.1:(\d{1,5})")
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]*")
_FILE = re.compile(r"\{file:([^{}]+)\}")
PLACEHOLDERS = ("file", "input", "kvload", "mempat", "tree", "vcpus")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)(?::[^{}]*)?\}")


@dataclass(frozen=True)
class Place:
    """What there is to know of a machine for which an input is chosen.

    Parameters
    ----------
    which : callable
        Finds a program, or a file by its path.
    mem_bytes : int, bytes
        Its memory; 0 where it is not known, and then all inputs fit.
    emulated : bool
        Whether its CPUs are emulated.
    """

    which: Which
    mem_bytes: int = 0
    emulated: bool = False


NO_PROGRAMS = Place(lambda program: None)
"""A machine that has nothing but what is brought along."""


def with_trees(word: str) -> str:
    """A word in which ``{tree:NAME}`` is replaced by where that suite lies."""
    return _TREE.sub(lambda match: str(TREES / match[1]), word)


class Tune(Table):
    """``[tune]``: where to look, in the workload's own (unscaled) time.

    Parameters
    ----------
    min_age : str, two times
        Range of the tunable ``min_age``, ``LOW:HIGH``.
    manual_min_age : str, time
        Of the manual scheme that the tuned one is compared with.
    unit_work : str, time
        What one run takes about.
    limit : str, time
        A run that takes longer hangs.
    """

    min_age: str = "0s:60s"
    manual_min_age: Time = "5s"
    unit_work: SomeTime = "60s"
    limit: SomeTime = "1h"

    @field_validator("min_age")
    @classmethod
    def _is_a_range(cls, words: str) -> str:
        low, colon, high = words.partition(":")
        if not colon:
            raise ValueError(f"'{words}' is not a range such as 0s:60s")
        if checked(parse_time, low) >= checked(parse_time, high):
            raise ValueError(f"the range {words} is empty")
        return words

    def tuning(self, shorter: int = 1) -> Tuning:
        """The values of the table, for runs that are so many times shorter."""
        low, _, high = self.min_age.partition(":")
        return Tuning(
            low_us=parse_time(low) // shorter,
            high_us=parse_time(high) // shorter,
            manual_us=parse_time(self.manual_min_age) // shorter,
            unit_work_s=float(Fraction(parse_time(self.unit_work), 1_000_000 * shorter)),
            limit_s=float(Fraction(parse_time(self.limit), 1_000_000)),
        )


class Load(Table):
    """``[real.load]``: what works on a server while it is measured.

    Parameters
    ----------
    command : list of str
        The load generator; its end is the end of the measurement.
    ready : list of str
        A command that succeeds once the server does its work; asked until it does. Empty to begin once it listens.
    warm_up : list of lists of str
        Commands between the two, not measured.
    address : str
        Where it reaches the server: ``NAME.sock``, a Unix socket in the folder in which all run, or ``127.0.0.1:PORT``,
        or ``none`` for a server without a socket. Before anything is sent, ``ready`` included, a process of the run
        must listen there. Without it, one must listen anywhere after ``ready``.
    """

    command: Words = Field(min_length=1)
    ready: Words = ()
    warm_up: tuple[Words, ...] = ()
    address: RunPath | None = None

    @field_validator("address")
    @classmethod
    def _is_local(cls, address: str | None) -> str | None:
        if address and ":" in address:
            match = _ADDRESS.fullmatch(address)
            if not match or int(match[1]) not in range(1, 1 << 16):
                raise ValueError(
                    f"'{address}' is not 127.0.0.1:PORT, the path of a socket in the run's folder, or none"
                )
        return address


class Input(Table):
    """``[real.inputs]``: one input of a program, as a table or, where it is never chosen, as its words alone.

    Parameters
    ----------
    words : list of str
        What ``{input}`` stands for.
    memory : str, size
        What a run takes at its peak; the input is not run where there is less.
    work : str, time
        What a run takes on an emulated CPU of machine ``guest``.
    needs : str
        File without which it cannot be run.
    """

    words: Words = ()
    memory: Size | None = None
    work: Time | None = None
    needs: str | None = None

    @property
    def mem_bytes(self) -> int:
        """What it takes, 0 where it is not known."""
        return parse_bytes(self.memory) if self.memory else 0

    def work_s(self, emulated: bool) -> float:
        """What a run takes, 0 where it is not known."""
        return parse_time(self.work) / 1e6 / (1 if emulated else FASTER) if self.work else 0.0

    @property
    def has_size(self) -> bool:
        """Whether a machine's input can be chosen by it."""
        return bool(self.memory and self.work)


class Real(Table):
    """``[[real]]``: the program itself, used on machines that have it; the first of several that a machine has.

    Parameters
    ----------
    command : list of str
        Its command line. ``{input}`` is replaced by the words of the input that was chosen, ``{tree:NAME}`` by where a
        suite lies that ``damoos workloads install`` has built, ``{vcpus}`` by the number of the machine's CPUs,
        ``{file:NAME}`` by a file beside this one, ``{kvload}`` and ``{mempat}`` by damoos's own programs; what is
        named so is brought along. Words never reach a shell.
    needs : str
        Program that must be there, by its name or its path.
    packages : list of str
        Names of Debian's; put into the guest's image.
    process : str
        Name of the process whose memory counts, for people who look for it.
    env : table of str
        Environment variables to set.
    stdin : str
        File that it reads, relative to the folder in which it runs.
    setup : list of lists of str
        Commands that fill that folder, once for all runs; each run starts with a copy of it.
    load : table
        For a server: its load.
    metrics : tables
        By name: what the output says of its performance.
    inputs : table of tables or lists of str, or list of str
        Each input, or its words, or inputs that are words themselves.
    input : str
        The input that is used where none is named. Without it the one with the most work is chosen that the machine has
        memory for and does in a minute; each input then has its ``memory`` and ``work``.
    user : str
        Account of the machine as which all of it runs (set-up, program, load, containers) where the agent is root, and
        to which the folder belongs in which it runs; no other user gets in there. A user id that is free is taken where
        there is no such account. Without it all runs as the agent does.
    network : {"host", "own"}
        own: all of it runs in a network that has loopback only, where no other program has a port or reaches one.
    paced : bool
        Whether it mostly waits (for requests at a fixed rate, say) instead of computing all the time. An emulated guest
        gets a clock that suits it.
    """

    command: Words = Field(min_length=1)
    needs: str = Field(min_length=1)
    packages: tuple[PackageName, ...] = ()
    process: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    stdin: RunPath | None = None
    setup: tuple[Words, ...] = ()
    load: Load | None = None
    metrics: dict[str, Metric] = Field(default_factory=dict)
    inputs: dict[str, Input] = Field(default_factory=dict)
    input: str | None = None
    user: str | None = None
    network: Literal["host", "own"] = "host"
    paced: bool = False

    @field_validator("user")
    @classmethod
    def _is_an_account_of_its_own(cls, name: str | None) -> str | None:
        if name in ("root", "nobody"):
            why = "it may do everything" if name == "root" else "other programs are this user, too"
            raise ValueError(f"'{name}' is no account for one program, because {why}; name another, or leave it out")
        if name is not None and not _ACCOUNT.fullmatch(name):
            raise ValueError(f"'{name}' is not the name of an account, such as redis")
        return name

    @field_validator("inputs", mode="before")
    @classmethod
    def _names_are_words(cls, value: Any) -> Any:
        """A list of inputs: each is the word that the program takes. A list of words: they are the input."""
        if isinstance(value, list) and not all(isinstance(word, str) for word in value):
            raise ValueError("as a list it has words only; write a table for inputs of several words")
        named = {word: [word] for word in value} if isinstance(value, list) else value
        if not isinstance(named, dict):
            return named
        return {name: {"words": one} if isinstance(one, list) else one for name, one in named.items()}

    @model_validator(mode="after")
    def _words_can_be_filled(self) -> Real:
        """A word that is a placeholder and nothing else must be one that damoos fills."""
        commands = [self.command, *self.setup, *self.env.items()]
        commands += [self.load.command, self.load.ready, *self.load.warm_up] if self.load else []
        for word in (word for command in commands for word in command):
            match = _PLACEHOLDER.fullmatch(word)
            if match and match[1] not in PLACEHOLDERS:
                raise ValueError(f"unknown placeholder '{word}'{nearest(match[1], PLACEHOLDERS)}")
        return self

    @field_validator("metrics")
    @classmethod
    def _names_are_free(cls, metrics: dict[str, Metric]) -> dict[str, Metric]:
        for name in metrics:
            if name in BUILT_IN:
                raise ValueError(f"'{name}' is what damoos measures itself; give the workload's own another name")
        return metrics

    @model_validator(mode="after")
    def _input_is_known(self) -> Real:
        if self.input is not None and self.input not in self.inputs:
            raise ValueError("'input' must name one of the 'inputs', and be there only with them")
        if self.input is None and not all(one.has_size for one in self.inputs.values()):
            raise ValueError("each of the 'inputs' must have its 'memory' and 'work', or 'input' must name one of them")
        return self

    @property
    def trees(self) -> Words:
        """Suites that it takes something from."""
        return tuple(sorted(set(_TREE.findall(self.model_dump_json()))))

    @property
    def where(self) -> str:
        """How people get the program; empty if there is no command for it."""
        if self.trees:
            return " and ".join(f"damoos workloads install {tree} --from DIR-or-git-URL" for tree in self.trees)
        return f"apt-get install {' '.join(self.packages)}" if self.packages else ""

    def chosen(self, machine: Place, name: str) -> str | None:
        """The input for a machine where none is named; None if the program has no inputs.

        Parameters
        ----------
        name : str
            Of the workload, for an error message.

        Raises
        ------
        UnsupportedError : the machine has too little memory for any of them, or their files are missing
        """
        if self.input is not None or not self.inputs:
            return self.input
        there = {key: one for key, one in self.inputs.items() if not one.needs or machine.which(with_trees(one.needs))}
        if not there:
            raise UnsupportedError(f"{name}: no input can be run, all need files that are missing")
        room = SHARE * machine.mem_bytes if machine.mem_bytes else math.inf
        fitting = [key for key, one in there.items() if one.mem_bytes <= room]
        if not fitting:
            least = min(there, key=lambda key: there[key].mem_bytes)
            raise UnsupportedError(
                f"{name}: its smallest input, {least}, takes {there[least].memory}, and the machine has"
                f" {show_bytes(machine.mem_bytes)}, of which {SHARE:.0%} may be taken; give the machine more memory"
            )
        work_s = {key: there[key].work_s(machine.emulated) for key in fitting}
        short = [key for key in fitting if work_s[key] <= WORK_S]
        return max(short, key=work_s.__getitem__) if short else min(fitting, key=work_s.__getitem__)

    def check(self, machine: Place, name: str, chosen: str) -> None:
        """Refuse an input that somebody has named and that cannot be run.

        Raises
        ------
        UnsupportedError : the machine has too little memory for it, or its file is missing
        """
        one = self.inputs[chosen]
        if one.needs and not machine.which(with_trees(one.needs)):
            raise UnsupportedError(f"{name}:{chosen} needs {with_trees(one.needs)}, which the machine does not have")
        if machine.mem_bytes and one.mem_bytes > machine.mem_bytes:
            raise UnsupportedError(
                f"{name}:{chosen} takes {one.memory}, and the machine has {show_bytes(machine.mem_bytes)}; give the"
                f" machine more memory, or leave ':{chosen}' out for an input that fits"
            )

    def program(self, folder: Path, chosen: str | None, containers: tuple[Container, ...] = ()) -> Program:
        """With the words of one input; ``folder`` is where files beside the workload's are."""
        words = self.inputs[chosen].words if chosen else ()

        def filled(command: Words) -> Words:
            spliced = [new for word in command for new in (words if word == "{input}" else [word])]
            return tuple(self._filled(word, words) for word in spliced)

        load = self.load
        return Program(
            argv=filled(self.command),
            env={name: self._filled(value, words) for name, value in self.env.items()},
            stdin=self.stdin and self._filled(self.stdin, words),
            setup=tuple(filled(command) for command in self.setup),
            load=None
            if load is None
            else base.Load(
                filled(load.command),
                filled(load.ready),
                tuple(filled(command) for command in load.warm_up),
                load.address,
            ),
            metrics=self.metrics,
            folder=folder,
            containers=tuple(
                base.Container(
                    one.name,
                    one.role,
                    filled(one.command) if one.command else None,
                    one.env,
                    one.memory_limits,
                    one.policy,
                )
                for one in containers
            ),
            user=self.user,
            network=self.network,
        )

    def _filled(self, word: str, words: Words) -> str:
        return with_trees(word.replace("{input}", " ".join(words)))


class Container(MemoryLimits):
    """``[[container]]``: what runs beside the program on the machine, in a cgroup of its own; or the program itself.

    Parameters
    ----------
    name : str
        Of lower-case letters, digits and hyphens.
    role : {"application", "sidecar", "tax"}
        The work itself; what comes with each application, such as a proxy or a logger; what each machine runs.
    command : list of str
        Its command line, with the same words as that of the program. It runs in the same folder until the run ends. The
        one table without it is of the program itself.
    needs : str
        Program that must be there; the first word of the command where it is left out.
    packages : list of str
        Names of Debian's; put into the guest's image.
    env : table of str
        Environment variables to set.
    memory_max, memory_high, swap_max : str, size
        Limits of its memory (memory.max, memory.high, memory.swap.max).
    memory_min, memory_low : str, size
        Memory that is kept for it when others need some (memory.min), or if it can be (memory.low).
    policy : str
        A policy in user space for it alone, such as ``senpai:ratio=1%``, or ``none``. It takes the place of the run's.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    role: Literal["application", "sidecar", "tax"]
    command: Words = ()
    needs: str | None = None
    packages: tuple[PackageName, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    memory_min: Size | None = None
    memory_low: Size | None = None
    policy: str | None = None

    files: ClassVar[Mapping[str, str]] = {
        **MemoryLimits.files,
        "memory_min": "memory.min",
        "memory_low": "memory.low",
    }

    @model_validator(mode="after")
    def _runs_something(self) -> Container:
        if self.name in _OUTPUTS:
            raise ValueError(f"container '{self.name}': damoos uses this name itself; choose another one")
        if not self.command and (self.role != "application" or self.needs or self.packages or self.env):
            raise ValueError(
                f"container '{self.name}' has no command, so it is the program of [real]: its role is application, and"
                " 'needs', 'packages' and 'env' are keys of [real]"
            )
        return self

    def check(self, machine: Place, name: str) -> None:
        """Refuse a machine that lacks its program.

        Raises
        ------
        UnsupportedError
        """
        needs = with_trees(self.needs or self.command[0]) if self.command else ""
        is_brought = not self.needs and "{" in needs
        if needs and not is_brought and not machine.which(needs):
            way = f" (apt-get install {' '.join(self.packages)})" if self.packages else ""
            raise UnsupportedError(
                f"{name}: container '{self.name}' needs {needs}, which is not installed on the machine{way}"
            )


# Their output is in files of these names, beside that of the containers.
_OUTPUTS = ("program", "load", "helper")


class Pattern(Table):
    """``[pattern]``: accesses made by damoos's own ``mempat``.

    Parameters
    ----------
    file : str
        Pattern file beside this one.
    rate : int
        Accesses that stand for one millisecond of a phase.
    repeats : int
        How often the phases are gone through.
    once : int
        How many of them, the first ones, only the first time.
    paced : bool
        Wait where the accesses are ahead of the phase's time, as a server does between requests.
    sleeps : bool
        Sleep where a program computes: after each few accesses for the time that they stand for. What delays the
        accesses makes the run longer, as it does that of a program; a CPU that sleeps costs an emulated guest nothing.
    compression : float
        By which factor compressors make the memory smaller, 1 or more. Without it the memory is zero where nothing has
        been written, and random where something has.
    """

    file: str = Field(min_length=1)
    rate: int = Field(ge=1)
    repeats: int = Field(default=1, ge=1)
    once: int = Field(default=0, ge=0)
    paced: bool = False
    sleeps: bool = False
    compression: float | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _waits_in_one_way(self) -> Pattern:
        if self.paced and self.sleeps:
            raise ValueError("paced and sleeps are two ways to wait; set one of them to false")
        return self


class Model(Pattern):
    """``[model]``: a pattern that stands for the real program, and is smaller.

    Parameters
    ----------
    memory_scale : int
        By how much it is smaller. Where it sleeps, page faults from swap take so many times longer.
    sleeps : bool
        As in a pattern, but true where nothing is said.
    """

    sleeps: bool = True
    memory_scale: int = Field(ge=1)


class Published(Table):
    """``[published]``: what others have measured of the real program, without a scheme and under prcl.

    Parameters
    ----------
    source : str
        Where it was published.
    runtime_s, prcl_runtime_s : float, seconds
        Runtime without a scheme, and under prcl.
    rss_kib, prcl_rss_kib : float, KiB
        Average RSS without a scheme, and under prcl.
    """

    source: str
    runtime_s: float
    rss_kib: float
    prcl_runtime_s: float
    prcl_rss_kib: float


class WorkloadFile(Table):
    """A whole workload file: either ``[pattern]`` or ``[real]``, perhaps with a ``[model]`` beside it.

    Parameters
    ----------
    description : str
        What it does, in one line.
    tune : table
        Where to look.
    real : table, or several
        The program itself.
    pattern : table
        A pattern of memory accesses that is a workload of its own.
    model : table
        A pattern that stands for the program where it is not installed.
    container : tables
        What runs beside the program.
    published : table
        Numbers to hold a model against.
    """

    description: str
    tune: Tune = Tune()
    real: tuple[Real, ...] = ()
    pattern: Pattern | None = None
    model: Model | None = None
    container: tuple[Container, ...] = ()
    published: Published | None = None

    @field_validator("real", mode="before")
    @classmethod
    def _one_is_enough(cls, value: Any) -> Any:
        return [value] if isinstance(value, dict) else value

    @model_validator(mode="after")
    def _something_runs(self) -> WorkloadFile:
        if (self.pattern is None) == (not self.real):
            raise ValueError(
                "a workload file has either [pattern] or [real] (with a [model] beside it, if there is one)"
            )
        return self

    @model_validator(mode="after")
    def _containers_can_run(self) -> WorkloadFile:
        if self.container and (self.pattern or self.model):
            raise ValueError("a [[container]] runs beside the program of [real], not beside a [pattern] or a [model]")
        names = [one.name for one in self.containers]
        if len(set(names)) < len(names):
            raise ValueError("each [[container]] needs a name of its own")
        if sum(not one.command for one in self.containers) > 1:
            raise ValueError("only one [[container]] may be without a command: it is the program of [real]")
        return self

    @property
    def containers(self) -> tuple[Container, ...]:
        """Its containers, the one of the program of ``[real]`` among them; empty where that runs alone."""
        if not self.container or any(not one.command for one in self.container):
            return self.container
        return (Container(name="application", role="application"), *self.container)


@dataclass(frozen=True)
class Wanted:
    """What a machine of our own should have for a workload: Debian packages, and suites if they are built.

    Its clock should suit a program that mostly waits if the workload is ``paced``.
    """

    packages: Words = ()
    trees: Words = ()
    paced: bool = False


def names() -> list[str]:
    """Workloads that come with damoos."""
    folder = paths.data("workloads")
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.toml"))


def find(name: str) -> tuple[Path, WorkloadFile]:
    """A workload file by its short name or path; an input behind it (``NAME:INPUT``) must be one that it has.

    Raises
    ------
    ConfigError : no such workload or input, or its file is wrong
    """
    stem, chosen = split(name)
    path = Path(stem) if stem.endswith(".toml") else paths.data("workloads") / f"{stem}.toml"
    if not os.path.isfile(path):
        if stem.endswith(".toml"):
            raise ConfigError(f"workload '{stem}': there is no such file")
        raise ConfigError(f"unknown workload '{stem}'{nearest(stem, names())}")
    file = toml_file.load(path, WorkloadFile)
    for pattern in filter(None, (file.pattern, file.model)):
        base.inside(path.parent / pattern.file, path.parent, f"{path}: pattern '{pattern.file}'")
        _check_pattern(path, path.parent / pattern.file)
    for beside in _FILE.findall(file.model_dump_json()):
        if not os.path.isfile(path.parent / beside):  # False, too, for a name that is too long
            raise ConfigError(f"{path}: '{{file:{beside}}}': there is no such file beside it")
        base.inside(path.parent / beside, path.parent, f"{path}: '{{file:{beside}}}'")
    known = sorted({input_name for real in file.real for input_name in real.inputs})
    if chosen is not None and chosen not in known:
        hint = nearest(chosen, known) if known else "; it has only one"
        raise ConfigError(f"workload '{stem}' has no input '{chosen}'{hint}")
    return path, file


def _check_pattern(path: Path, pattern: Path) -> None:
    try:
        user_file.read_text(pattern)
    except OSError as error:
        raise ConfigError(f"{path}: pattern {pattern}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: pattern {pattern}: not a text file") from None


def split(name: str) -> tuple[str, str | None]:
    """Name and input of ``NAME:INPUT``."""
    stem, colon, chosen = name.partition(":")
    return stem, chosen if colon else None


def wanted(name: str) -> Wanted:
    """What the workload's real forms need on a machine."""
    file = find(name)[1]
    packages = {package for real in file.real for package in real.packages}
    packages |= {package for container in file.container for package in container.packages}
    trees = tuple(sorted({tree for real in file.real for tree in real.trees}))
    return Wanted(tuple(sorted(packages)), trees, _paced(file))


def _paced(file: WorkloadFile) -> bool:
    """Whether the form of a workload that a guest runs mostly waits."""
    # What neither a package nor a suite brings is in no guest, and a model stands for it.
    brought = (real for real in file.real if real.trees or real.packages or file.model is None)
    there = (real for real in brought if all(map(paths.tree, real.trees)))
    form = file.pattern or next(there, file.model)
    return form is not None and (form.paced or (isinstance(form, Pattern) and form.sleeps))


def workload(name: str, machine: Place, require_real: bool = False) -> Workload:
    """The variant of a workload that a machine can run.

    Parameters
    ----------
    name : str
        Short name or path of a file, perhaps with an input behind it.
    machine : Place
    require_real : bool
        Refuse a model.

    Raises
    ------
    UnsupportedError : the machine lacks the real program and there is no model, or it is refused; or it lacks what the
        program's input takes
    """
    path, file = find(name)
    stem, chosen = split(name)
    short = name if not stem.endswith(".toml") else path.stem + (f":{chosen}" if chosen else "")
    if file.pattern:
        return _pattern(short, path, file.pattern, file.tune.tuning())
    there = [real for real in file.real if chosen is None or chosen in real.inputs]
    for real in there:
        if machine.which(with_trees(real.needs)):
            return _program(short, path, file, real, machine)
    ways = " or ".join(dict.fromkeys(real.where for real in there if real.where))
    lacks = f"{stem} is not installed on the machine" + (f" ({ways})" if ways else "")
    if require_real or file.model is None:
        raise UnsupportedError(f"{lacks}, and {'a model was refused' if file.model else 'there is no model of it'}")
    runs = _pattern(short, path, file.model, file.tune.tuning())
    runs.variant = "model"
    runs.note = f"{lacks}: an access-pattern MODEL of it runs, with 1/{file.model.memory_scale} of the memory"
    return runs


def has_form(name: str, suite: str) -> bool:
    """Whether a program can run with what one suite brings."""
    return any(real.trees == (suite,) for real in find(name)[1].real)


def smallest(name: str, suite: str, machine: Place) -> Workload | None:
    """The real program as a suite brings it, with the input that takes least; None if the machine does not have it."""
    path, file = find(name)
    for real in file.real:
        if suite in real.trees and machine.which(with_trees(real.needs)):
            least = min(real.inputs, key=lambda key: real.inputs[key].work_s(emulated=True), default=None)
            chosen = name if least is None else f"{name}:{least}"
            return _program(chosen, path, file, real, machine)
    return None


def _program(name: str, path: Path, file: WorkloadFile, real: Real, machine: Place) -> ProgramWorkload:
    """The program itself, with the input that was named, or else with one that fits the machine."""
    stem, named = split(name)
    if named:
        real.check(machine, stem, named)
    for container in file.containers:
        container.check(machine, stem)
    chosen = named or real.chosen(machine, stem)
    work_s = real.inputs[chosen].work_s(machine.emulated) if chosen else 0.0
    # The ages of [tune] are for runs of its unit_work. Those of a user's own schemes are what they are.
    scale = max(1, round(file.tune.tuning().unit_work_s / work_s)) if work_s else 1
    is_chosen = chosen is not None and named is None and real.input is None
    runs = ProgramWorkload(
        f"{stem}:{chosen}" if is_chosen else name,
        real.program(path.parent, chosen, file.containers),
        file.tune.tuning(scale),
    )
    if is_chosen:
        cpu = "an emulated CPU" if machine.emulated else "its CPUs"
        memory = f"{show_bytes(machine.mem_bytes)} of memory and {cpu}" if machine.mem_bytes else cpu
        others = ", ".join(f"{stem}:{other}" for other in real.inputs if other != chosen)
        runs.note = f"input {chosen} was chosen for {memory}" + (f"; name another by {others}" if others else "")
        if scale > 1:
            runs.note += (
                f"; a run is {scale} times shorter than [tune] says, so its range of min_age and its manual scheme are"
                f" divided by {scale}"
            )
    return runs


def _pattern(name: str, path: Path, table: Pattern, tuning: Tuning) -> PatternWorkload:
    pattern = path.parent / table.file
    if not pattern.is_file():
        raise ConfigError(f"{path}: pattern file {pattern} does not exist")
    return PatternWorkload(
        name, pattern, table.rate, table.repeats, table.once, tuning,
        paced=table.paced, sleeps=table.sleeps, memory_scale=table.memory_scale if isinstance(table, Model) else 1,
        compression=table.compression,
    )  # fmt: skip


def words_of(text: str, option: str) -> Words:
    """The words of an option that takes a command line; they never reach a shell."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ConfigError(f"{option} '{text}': {error}") from None
    if not words:
        raise ConfigError(f"{option} is empty")
    return words


def command(text: str, tuning: Tuning) -> Workload:
    """A workload from the words of ``--command``."""
    argv = words_of(text, "--command")
    return ProgramWorkload(Path(argv[0]).name, Program(argv), replace(tuning))


def reading(text: str) -> base.Reading:
    """A metric of a running process, from ``qps=cmd:PROGRAM ARGS``, ``qps=file:PATH`` or ``qps=http://HOST/PATH``.

    ``#KEY`` behind it tells which number (behind a command after a space), see
    `damoos.agent.metric_source.number_in`.

    Raises
    ------
    ConfigError : not of this form
    """
    if addresses.has_secret(text):
        raise ConfigError(
            f"--metric '{addresses.hidden(text)}': leave the password out, where other users and files see it; read the"
            " address by a command that has it in a file of its own: NAME=cmd:curl -s --netrc ADDRESS"
        )
    name, equals, source = text.partition("=")
    kind, colon, rest = source.partition(":")
    kinds = ("cmd", "file", "http", "https")
    if not equals or not colon or not rest or not name.isidentifier() or name != name.lower():
        raise ConfigError(
            f"--metric '{text}': write NAME=cmd:PROGRAM ARGS, NAME=file:PATH or NAME=http://HOST/PATH, and #KEY behind"
            " it if it has several numbers"
        )
    if kind not in kinds:
        raise ConfigError(f"--metric '{text}': unknown source '{kind}'{nearest(kind, kinds)}")
    if kind == "cmd":
        command, _, key = rest.partition(" #")
        return base.Reading(name, "cmd", words_of(command, f"--metric {name}"), _key(key, name))
    place, _, key = (rest if kind == "file" else source).partition("#")
    return base.Reading(name, "file" if kind == "file" else "url", (place,), _key(key, name))


def _key(key: str, name: str) -> str:
    """A key whose regex, if it is one, is one."""
    if len(key) > 1 and key.startswith("/") and key.endswith("/"):
        try:
            groups = groups_in(key[1:-1])
        except ValueError as error:
            raise ConfigError(f"--metric {name}: {key} is no regular expression: {error}") from None
        if groups > 1:
            raise ConfigError(f"--metric {name}: {key} has {groups} groups; give it one, around the number")
    return key
