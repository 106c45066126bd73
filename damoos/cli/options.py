"""Options that several of the long commands share."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from damoos.cli import complete
from damoos.cli.common import GUARD, POLICY, SCORE, SEARCH, WHAT, WHERE
from damoos.errors import ConfigError

Workload = Annotated[
    str | None,
    typer.Option(
        help="Workload name or TOML file; see 'damoos workloads'.",
        autocompletion=complete.workloads,
        rich_help_panel=WHAT,
    ),
]
Machine = Annotated[
    str | None,
    typer.Option(
        help="Machine name or TOML file (default: guest; with --pid local).",
        autocompletion=complete.machines,
        rich_help_panel=WHERE,
    ),
]
Guest = Annotated[
    str, typer.Option(help="Guest name or TOML file.", autocompletion=complete.machines, rich_help_panel=WHERE)
]
Kernel = Annotated[
    str | None,
    typer.Option(
        help="Kernel of a guest; see 'damoos kernel list'.", autocompletion=complete.kernels, rich_help_panel=WHERE
    ),
]
NameInService = Annotated[
    str | None, typer.Option(help="Its name in service (default: made of --on).", rich_help_panel=WHAT)
]
Guards = Annotated[
    list[str] | None,
    typer.Option(
        "--guard",
        help="A limit in service, e.g. 'memory_pressure<=1%' or 'p99_ms<=20'; several times"
        " (default: those of the score, and memory_pressure<=10%).",
        rich_help_panel=GUARD,
    ),
]
Window = Annotated[str, typer.Option(help="For how long it is measured before it is judged.", rich_help_panel=GUARD)]
GuardMetrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        help="A metric for --guard: 'p99_ms=cmd:PROGRAM ARGS', 'p99_ms=file:PATH' or"
        " 'p99_ms=http://HOST/#json.path'; several times.",
        rich_help_panel=GUARD,
    ),
]
NamedWorkload = Annotated[
    str | None,
    typer.Argument(
        metavar="WORKLOAD",
        help="Workload name or TOML file; 'damoos workloads' lists the names.",
        autocompletion=complete.workloads,
        show_default=False,
    ),
]
CommandLine = Annotated[str | None, typer.Option(help="Run this command line instead.", rich_help_panel=WHAT)]
RunLimit = Annotated[str | None, typer.Option(help="A run that takes longer hangs, e.g. 5m.", rich_help_panel=WHAT)]
RequireReal = Annotated[bool, typer.Option("--require-real", help="Refuse models of workloads.", rich_help_panel=WHAT)]
Operations = Annotated[
    str,
    typer.Option(
        help="vaddr (the process tree) or paddr (all memory).",
        autocompletion=complete.choices("vaddr", "paddr"),
        rich_help_panel=POLICY,
    ),
]
SchemeText = Annotated[
    str | None, typer.Option(help="Scheme text or file; MIN_AGE is tuned (default: prcl).", rich_help_panel=POLICY)
]
Tunables = Annotated[
    list[str] | None,
    typer.Option(
        "--tune", help="Range or choice, several times: min_age=0s:60s, max_freq=0:20.", rich_help_panel=POLICY
    ),
]
Policy = Annotated[
    str,
    typer.Option(
        help="damos (a scheme is tuned), or one whose parameters are: senpai, mglru and others (docs/policies.md);"
        " several with commas, or any, to search for the best of them.",
        autocompletion=complete.policies,
        rich_help_panel=POLICY,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help="Limit of each run's memory, baselines too: 512M, or 60% of the peak; high:60% throttles, never kills.",
        rich_help_panel=WHERE,
    ),
]
WriteLimit = Annotated[
    str | None,
    typer.Option(
        help="What a run under a policy may write to swap, bytes a second: 1M. Baselines have no limit.",
        rich_help_panel=WHERE,
    ),
]
Scorer = Annotated[
    str,
    typer.Option(
        "--score",
        help="daos, sla, weighted, cost, psi, FILE.py:FUNCTION, or a program (a path).",
        autocompletion=complete.scorers,
        rich_help_panel=SCORE,
    ),
]
Maximize = Annotated[str | None, typer.Option(help="sla: the metric to maximise.", rich_help_panel=SCORE)]
Minimize = Annotated[str | None, typer.Option(help="sla: the metric to minimise.", rich_help_panel=SCORE)]
Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit", help="sla, weighted, cost: 'slowdown<=0.05', 'p99_ms<=1.2x'; several times.", rich_help_panel=SCORE
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option("--weight", help="weighted: memory_saving=0.7; several times.", rich_help_panel=SCORE),
]
Prices = Annotated[str | None, typer.Option(help="cost: TOML file with gib_hour and core_hour.", rich_help_panel=SCORE)]
Searcher = Annotated[
    str,
    typer.Option(
        help="auto, bayes, daos (the paper's), random, grid, anneal, or optuna:NAME.",
        autocompletion=complete.searchers,
        rich_help_panel=SEARCH,
    ),
]
Prior = Annotated[
    str,
    typer.Option(
        help="What to expect: auto (of finished studies of the workload; else of a recording), record, or none.",
        autocompletion=complete.choices("auto", "record", "none"),
        rich_help_panel=SEARCH,
    ),
]
Like = Annotated[
    list[str] | None,
    typer.Option(
        help="A finished study that tells what to expect; several times. Default: those of the same workload.",
        autocompletion=complete.studies,
        rich_help_panel=SEARCH,
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the searcher.", rich_help_panel=SEARCH)]
Repeats = Annotated[
    int,
    typer.Option(help="The most rounds of validation; a clear verdict ends it after 2.", rich_help_panel=SEARCH),
]
Candidates = Annotated[
    int,
    typer.Option(
        help="The most points that are validated: the next one where one breaks the limits.", rich_help_panel=SEARCH
    ),
]
Runs = Annotated[
    int | None,
    typer.Option(help="The most runs of all kinds; trials give way to the validation.", rich_help_panel=SEARCH),
]


def one_workload(named: str | None, workload: str | None) -> str | None:
    """The workload that is given, as an argument or by ``--workload``."""
    if named is not None and workload is not None:
        raise ConfigError(f"two workloads: '{named}' and --workload '{workload}'; give one of them")
    return workload or named


def score_options(
    maximize: str | None, minimize: str | None, limits: list[str] | None, weights: list[str] | None, prices: str | None
) -> dict[str, Any]:
    """The keyword arguments of a scorer that were given."""
    options = {"maximize": maximize, "minimize": minimize, "limits": limits, "weights": weights, "prices": prices}
    return {name: value for name, value in options.items() if value}
