"""Options that several of the long commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from damoos.cli import complete
from damoos.errors import ConfigError
from damoos.words import GUARD, POLICY, SCORE, SEARCH, WHAT, WHERE

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
Scorer = Annotated[
    str,
    typer.Option(
        "--score",
        help="daos, sla, weighted, cost, psi, FILE.py:FUNCTION, or a program (a path).",
        autocompletion=complete.scorers,
        rich_help_panel=SCORE,
    ),
]
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


def one_workload(named: str | None, workload: str | None) -> str | None:
    """The workload that is given, as an argument or by ``--workload``."""
    if named is not None and workload is not None:
        raise ConfigError(f"two workloads: '{named}' and --workload '{workload}'; give one of them")
    return workload or named
