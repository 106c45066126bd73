"""The words of studies, sweeps, evaluations and leagues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from pathlib import Path

from damoos.units import parse_time
from damoos.words import OUTPUT, POLICY, SCORE, SEARCH, WHAT, WHERE, Words, again, word

# Of a study. Each trial takes 5 KB of memory whenever the study is read, within bounds that follow from this.
LEAST_TRIALS, MOST_TRIALS = 2, 20_000
# Fewer make no interval.
LEAST_BLOCKS = 3
MOST_ROUNDS, MOST_CANDIDATES, MOST_RUNS = 1_000, 100, 100_000
# What every generator of random numbers takes.
MOST_SEED = 2**32 - 1
DAMOS = "damos"
PRIORS = ("auto", "record", "none")
TRIALS = 10


@dataclass(frozen=True)
class TargetWords(Words):
    """What is tuned: a workload, a command, or a process that runs already."""

    workload: str | None = word(
        None, "Workload name or TOML file; 'damoos workloads' lists the names.", WHAT, completion="workloads",
        argument="WORKLOAD",
    )  # fmt: skip
    _: KW_ONLY
    command: str | None = word(None, "Run this command line instead.", WHAT)
    pid: int | None = word(None, "Tune a running process instead; it is not restarted.", WHAT, least=1)
    metrics: Sequence[str] = word(
        (), "--pid: 'qps=cmd:PROGRAM ARGS', 'qps=file:PATH', 'qps=http://HOST/#json.path'; several times.", WHAT,
        option="--metric",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class KernelWords(Words):
    """Which kernel a guest has."""

    kernel: str | None = word(
        None, "Kernel of a guest; see 'damoos kernel list' (default: that of its machine file).", WHERE,
        completion="kernels",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RealWords(Words):
    """Whether a workload's model may stand for it."""

    require_real: bool = word(False, "Refuse models of workloads.", WHAT)


@dataclass(frozen=True, kw_only=True)
class RunWords(RealWords):
    """How each run is done."""

    run_limit: str | None = word(None, "A run that takes longer hangs, e.g. 5m.", WHAT, parse=parse_time)


@dataclass(frozen=True, kw_only=True)
class PolicyWords(Words):
    """What is tuned over which ranges, and what a run may take."""

    memory: str | None = word(
        None,
        "Limit of each run's memory, baselines too: 512M, or 60% of the peak; high:60% throttles, never kills.", WHERE,
    )  # fmt: skip
    write_limit: str | None = word(
        None, "What a run under a policy may write to swap, bytes a second: 1M. Baselines have no limit.", WHERE
    )
    policy: str = word(
        DAMOS,
        "damos (a scheme is tuned), or one whose parameters are: senpai, mglru and others (docs/policies.md); several"
        " with commas, or any, to search for the best of them.", POLICY, completion="policies",
    )  # fmt: skip
    tune: Sequence[str] = word(
        (), "Range or choice, several times: min_age=0s:60s, max_freq=0:20.", POLICY, option="--tune"
    )
    operations: str = word(
        "vaddr", "vaddr (the process tree) or paddr (all memory).", POLICY, choices=("vaddr", "paddr")
    )


@dataclass(frozen=True, kw_only=True)
class SchemeWords(Words):
    """The scheme that is tuned."""

    scheme: str | None = word(None, "Scheme text or file; MIN_AGE is tuned (default: prcl).", POLICY)


@dataclass(frozen=True, kw_only=True)
class ScoreWords(Words):
    """How runs are scored."""

    score: str | None = word(
        None,
        "daos, sla, weighted, cost, psi, FILE.py:FUNCTION, or a program (a path). Default: daos; with --pid sla where"
        " there is a --limit, else psi.", SCORE, completion="scorers",
    )  # fmt: skip
    maximize: str | None = word(None, "sla: the metric to maximise.", SCORE)
    minimize: str | None = word(None, "sla: the metric to minimise.", SCORE)
    limits: Sequence[str] = word(
        (), "sla, weighted, cost: 'slowdown<=0.05', 'p99_ms<=1.2x'; several times.", SCORE, option="--limit"
    )
    weights: Sequence[str] = word((), "weighted: memory_saving=0.7; several times.", SCORE, option="--weight")
    prices: str | None = word(None, "cost: TOML file with gib_hour and core_hour.", SCORE)


@dataclass(frozen=True, kw_only=True)
class SeedWords(Words):
    """What makes a study's choices by chance the same again."""

    seed: int = word(0, "Seed of the searcher, and of the order of runs.", SEARCH, least=0, most=MOST_SEED)


@dataclass(frozen=True, kw_only=True)
class ValidationWords(Words):
    """How far a validation goes."""

    repeats: int = word(
        6, "The most rounds of validation; a clear verdict ends it after 2.", SEARCH, least=2, most=MOST_ROUNDS
    )
    candidates: int = word(
        3, "The most points that are validated: the next one where one breaks the limits.", SEARCH, least=1,
        most=MOST_CANDIDATES,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SearchWords(SeedWords, ValidationWords):
    """Who searches, and how far it goes."""

    searcher: str = word(
        "auto", "auto, bayes, daos (the paper's), random, grid, anneal, or optuna:NAME.", SEARCH, completion="searchers"
    )
    prior: str = word(
        "auto", "What to expect: auto (of finished studies of the workload; else of a recording), record, or none.",
        SEARCH, choices=PRIORS,
    )  # fmt: skip
    runs: int | None = word(
        None, "The most runs of all kinds; trials give way to the validation.", SEARCH, most=MOST_RUNS
    )


@dataclass(frozen=True, kw_only=True)
class LikeWords(Words):
    """Which finished studies tell the searcher of a study what to expect; studies of a sweep ask none."""

    like: Sequence[str] = word(
        (), "A finished study that tells what to expect; several times. Default: those of the same workload.", SEARCH,
        completion="studies",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrialWords(Words):
    """How many trials there are."""

    trials: int | None = word(
        None, f"The most trials (default {TRIALS}).", SEARCH, least=LEAST_TRIALS, most=MOST_TRIALS,
        yields_to="time_limit",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class StoreWords(Words):
    """Where results are kept."""

    results: Path = word(Path("results"), "Folder of studies and raw data.", OUTPUT, is_place=True)
    storage: str | None = word(None, "Optuna storage URL; default: SQLite in the results folder.", OUTPUT)


@dataclass(frozen=True, kw_only=True)
class TuneWords(
    StoreWords, TrialWords, LikeWords, SearchWords, ScoreWords, SchemeWords, PolicyWords, RunWords, TargetWords
):  # the last one comes first
    """A study of one workload on one machine."""

    settle: str | None = word(
        None, "--pid: time that is discarded after each change (default 2s).", WHAT, parse=parse_time, needs=("pid",)
    )
    machine: str | None = word(
        None, "Machine name or TOML file (default: guest; with --pid local).", WHERE, completion="machines"
    )
    time_limit: str | None = word(
        None, "Time for all trials, e.g. 1h; trials = limit / unit work.", SEARCH, parse=parse_time
    )
    unit_work: str | None = word(
        None, "Time of one run, for --time-limit; with --pid, time of each window (default 10s).", SEARCH,
        parse=parse_time, needs=("time_limit", "pid"),
    )  # fmt: skip
    new: bool = word(False, "Begin a new study, also where an unfinished one of the same words is there.", OUTPUT)


@dataclass(frozen=True)
class EachWords(Words):
    """Every one of some workloads on every one of some machines."""

    workloads: Sequence[str] = word(
        MISSING, "Names, files, patterns: 'splash2x/*,redis/*'.", WHAT, completion="workloads", separated=True
    )
    machines: Sequence[str] = word(
        ("guest",), "Names, files, patterns: i3,m5d,z1d.", WHERE, completion="machines", separated=True
    )


@dataclass(frozen=True, kw_only=True)
class ClusterWords(Words):
    """Which computers do the work."""

    ray: str | None = word(
        None, "Ray cluster: auto, or HOST:PORT; without it, all work is done in this process.", WHERE
    )
    insecure_cluster: bool = word(
        False, "Use a Ray cluster that asks for no token, or is another user's; it can run programs as you.", WHERE
    )


@dataclass(frozen=True, kw_only=True)
class DriveWords(StoreWords, ClusterWords):
    """Who does the work of a sweep, and where its results go."""


@dataclass(frozen=True, kw_only=True)
class SweepWords(DriveWords, TrialWords, SearchWords, ScoreWords, SchemeWords, PolicyWords, RunWords, EachWords):
    """A study of each workload on each machine."""


@dataclass(frozen=True)
class EvaluateWords(DriveWords, SeedWords, RunWords, EachWords):
    """Configurations that are compared on each workload on each machine."""

    configs: Sequence[str] | None = word(
        None,
        "Configurations, comma-separated: baseline, rec, prec, thp, ethp, prcl (these six are the default),"
        " listing1-ethp, listing1-prcl, v8-ethp, v8-prcl, v8-plans, FILE.damos, senpai, or protect:RECORDING. The"
        " baseline always runs.", POLICY, completion="configurations", separated=True,
    )  # fmt: skip
    _: KW_ONLY
    operations: str = again(PolicyWords, "operations")
    memory: Sequence[str] = word(
        (),
        "Limits of memory, comma-separated: 512M, or shares of the baseline's peak (100%,80%,60%); high:60% throttles"
        " and never kills. Each configuration runs under each limit, and the baseline without one, too.", WHERE,
        separated=True,
    )  # fmt: skip
    write_limit: str | None = again(
        PolicyWords,
        "write_limit",
        help="What may be written to swap, bytes a second: 1M. Each configuration runs without and with it.",
    )
    repeats: int = word(
        5,
        "Blocks; each holds every configuration once, in a shuffled order.",
        SEARCH,
        least=LEAST_BLOCKS,
        most=MOST_ROUNDS,
    )


@dataclass(frozen=True)
class LeagueWords(DriveWords, SeedWords, RealWords):
    """Policies that are tuned beside one another on each workload on each machine."""

    workloads: Sequence[str] = again(EachWords, "workloads")
    policies: Sequence[str] = word(
        ("any",), "Policies, comma-separated (docs/policies.md), or any for all that need no tiers.", POLICY,
        completion="policies", separated=True,
    )  # fmt: skip
    machines: Sequence[str] = again(EachWords, "machines")
    _: KW_ONLY
    limits: Sequence[str] = again(
        ScoreWords, "limits", default=("slowdown<=0.05",),
        help="What each is tuned under (default 'slowdown<=0.05'); several times.",
    )  # fmt: skip
    trials: int = again(
        TrialWords, "trials", default=4,
        help="Trials of each policy on each workload; its defaults come first.",
    )  # fmt: skip
    repeats: int = again(ValidationWords, "repeats")
