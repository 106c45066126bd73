"""The commands that compare configurations, and the manual scheme with the tuned one."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from damoos.cli import complete, options
from damoos.cli.common import (
    POLICY,
    RESULTS,
    SCORE,
    SEARCH,
    WHAT,
    WHERE,
    Format,
    Results,
    Storage,
    check_format,
    comma_separated,
)
from damoos.cli.sweeps import InsecureCluster, RayAddress, SweepDryRun, SweepFormat, begin, ray_cluster
from damoos.errors import ConfigError

MACHINE = "guest"

app = typer.Typer()


@app.command()
def evaluate(
    workload_names: Annotated[
        str | None,
        typer.Option(
            "--workloads",
            help="Names, files, patterns: 'parsec3/*,splash2x/fft'.",
            autocompletion=complete.several(complete.workloads),
            rich_help_panel=WHAT,
        ),
    ] = None,
    machine_names: Annotated[
        str | None,
        typer.Option(
            "--machines",
            help="Names, files, patterns: i3,m5d (default: guest).",
            autocompletion=complete.several(complete.machines),
            rich_help_panel=WHERE,
        ),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option(
            help="Configurations, comma-separated: baseline, rec, prec, thp, ethp, prcl (these six are the default),"
            " listing1-ethp, listing1-prcl, v8-ethp, v8-prcl, v8-plans, FILE.damos, senpai, or protect:RECORDING. The"
            " baseline always runs.",
            autocompletion=complete.several(complete.configurations),
            rich_help_panel=POLICY,
        ),
    ] = None,
    operations: options.Operations = "vaddr",
    memory: Annotated[
        str | None,
        typer.Option(
            help="Limits of memory, comma-separated: 512M, or shares of the baseline's peak (100%,80%,60%);"
            " high:60% throttles and never kills. Each configuration runs under each limit, and the baseline"
            " without one, too.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    write_limit: Annotated[
        str | None,
        typer.Option(
            help="What may be written to swap, bytes a second: 1M. Each configuration runs without and with it.",
            rich_help_panel=WHERE,
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(help="Blocks; each holds every configuration once, in a shuffled order.", rich_help_panel=SEARCH),
    ] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the order in blocks.", rich_help_panel=SEARCH)] = 0,
    run_limit: options.RunLimit = None,
    require_real: options.RequireReal = False,
    ray: RayAddress = None,
    insecure_cluster: InsecureCluster = False,
    dry_run: SweepDryRun = False,
    results: Results = RESULTS,
    storage: Storage = None,
    form: SweepFormat = "text",
) -> None:
    """Run workloads under several configurations, in shuffled blocks, and compare each with its block's baseline.

    Example: damoos evaluate --workloads 'parsec3/*' --machines i3,m5d --configs baseline,rec,prec,thp,ethp,prcl

    Example: damoos evaluate --workloads redis/idle --configs baseline,prcl --memory 100%,80%,60%,40%
    """
    from damoos.api import comparisons
    from damoos.policies import named

    check_format(form, "jsonl")
    if workload_names is None:
        raise ConfigError("give --workloads, for example --workloads 'parsec3/*'; 'damoos workloads' lists the names")
    config = comparisons.evaluation_config(
        comma_separated(workload_names, "--workloads"), comma_separated(machine_names or MACHINE, "--machines"),
        named.PAPER if configs is None else comma_separated(configs, "--configs"),
        operations=operations, memory=comma_separated(memory, "--memory") if memory else (),
        write_limit=write_limit, repeats=repeats, run_limit=run_limit,
        results=results, seed=seed, require_real=require_real,
    )  # fmt: skip
    begin(config, ray_cluster(ray, insecure_cluster), dry_run, results, storage, form)


@app.command()
def league(
    workload_names: Annotated[
        str,
        typer.Option(
            "--workloads",
            help="Names, files, patterns: 'redis/*,splash2x/fft'.",
            autocompletion=complete.several(complete.workloads),
            rich_help_panel=WHAT,
        ),
    ],
    machine_names: Annotated[
        str,
        typer.Option(
            "--machines",
            help="Names, files, patterns: guest,guest-ssd-fast.",
            autocompletion=complete.several(complete.machines),
            rich_help_panel=WHERE,
        ),
    ] = MACHINE,
    policies: Annotated[
        str,
        typer.Option(
            help="Policies, comma-separated (docs/policies.md), or any for all that need no tiers.",
            autocompletion=complete.several(complete.policies),
            rich_help_panel=POLICY,
        ),
    ] = "any",
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", help="What each is tuned under (default 'slowdown<=0.05'); several times.", rich_help_panel=SCORE
        ),
    ] = None,
    trials: Annotated[
        int,
        typer.Option(help="Trials of each policy on each workload; its defaults come first.", rich_help_panel=SEARCH),
    ] = 4,
    repeats: options.Repeats = 6,
    seed: options.Seed = 0,
    require_real: options.RequireReal = False,
    ray: RayAddress = None,
    insecure_cluster: InsecureCluster = False,
    dry_run: SweepDryRun = False,
    results: Results = RESULTS,
    storage: Storage = None,
    form: SweepFormat = "text",
) -> None:
    """Tune several policies on every workload with the same number of trials each, and tell what each one saves.

    What is saved is told for slowdowns of at most 2, 5 and 10 %, from fresh runs, and tuned beside defaults.

    Example: damoos league --workloads 'redis/*,splash2x/*' --policies damos,senpai,gswap
    """
    from damoos.api import comparisons

    check_format(form, "jsonl")
    config = comparisons.league_config(
        comma_separated(workload_names, "--workloads"), comma_separated(policies, "--policies"),
        comma_separated(machine_names, "--machines"), limits=limits or ["slowdown<=0.05"], trials=trials,
        repeats=repeats, seed=seed, require_real=require_real,
    )  # fmt: skip
    begin(config, ray_cluster(ray, insecure_cluster), dry_run, results, storage, form)


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
