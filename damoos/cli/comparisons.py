"""The commands that compare configurations, and the manual scheme with the tuned one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer

from damoos.cli import complete, words
from damoos.cli.common import RESULTS, DryRunWords, Format, Results, Storage, check_format
from damoos.cli.sweeps import SweepFormatWords, begin
from damoos.words.studies import EvaluateWords, LeagueWords

app = typer.Typer()


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(SweepFormatWords, DryRunWords, EvaluateWords):
    """All words of the command."""


@app.command()
@words.takes(EvaluateOptions)
def evaluate(said: EvaluateOptions) -> None:
    """Run workloads under several configurations, in shuffled blocks, and compare each with its block's baseline.

    Example: damoos evaluate --workloads 'parsec3/*' --machines i3,m5d --configs baseline,rec,prec,thp,ethp,prcl

    Example: damoos evaluate --workloads redis/idle --configs baseline,prcl --memory 100%,80%,60%,40%
    """
    from damoos.api import comparisons

    begin(comparisons.evaluation_config(said), said, said.form, said.dry_run)


@dataclass(frozen=True, kw_only=True)
class LeagueOptions(SweepFormatWords, DryRunWords, LeagueWords):
    """All words of the command."""


@app.command()
@words.takes(LeagueOptions)
def league(said: LeagueOptions) -> None:
    """Tune several policies on every workload with the same number of trials each, and tell what each one saves.

    What is saved is told for slowdowns of at most 2, 5 and 10 %, from fresh runs, and tuned beside defaults.

    Example: damoos league --workloads 'redis/*,splash2x/*' --policies damos,senpai,gswap
    """
    from damoos.api import comparisons

    begin(comparisons.league_config(said), said, said.form, said.dry_run)


@app.command()
def compare(
    names: Annotated[
        list[str],
        typer.Argument(
            help="Sweeps and studies that have finished.", metavar="NAME...", autocompletion=complete.studies_and_sweeps
        ),
    ],
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Compare the manual and the tuned schemes of finished studies, by machine; nothing is run.

    Example: damoos compare sweep-1
    """
    from damoos.api import comparisons

    check_format(form)
    compared = comparisons.compare(names, results=results, storage=storage)
    written = compared.write(comparisons.folder_of(names, results))
    if form == "json":
        print(json.dumps(compared.result))
        return
    print(repr(compared))
    print("\n".join(map(str, written)))
