"""The commands that measure damoos itself, and the one that writes plugins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damoos.cli import complete, options
from damoos.cli.common import RESULTS, Format, Results, check_format, comma_separated, number, positive, say
from damoos.errors import ConfigError, nearest
from damoos.policies.documents import scheme_text
from damoos.units import show_count
from damoos.words import OUTPUT, SEARCH, WHAT

if TYPE_CHECKING:
    from damoos.bench.surfaces import Surface

# Studies that are simulated at most for each slowdown and noise: the shares are then known to a hundredth of a percent.
MOST_MADE = 100_000
plugin = typer.Typer(help="Write plugins.\n\nExample: damoos plugin new searcher my_search", no_args_is_help=True)
bench = typer.Typer(
    help="Measure damoos itself: its searchers, its verdicts.\n\nExample: damoos bench searchers --generate 100",
    no_args_is_help=True,
)


@bench.command("searchers")
def bench_searchers(
    curves: Annotated[
        Path | None,
        typer.Option(help="Folder of measured curves; without it, curves are generated.", rich_help_panel=WHAT),
    ] = None,
    searchers: Annotated[
        str,
        typer.Option(
            help="Comma-separated names, or all.",
            autocompletion=complete.several(complete.searchers),
            rich_help_panel=SEARCH,
        ),
    ] = "all",
    trials: Annotated[str, typer.Option(help="Comma-separated numbers of trials.", rich_help_panel=SEARCH)] = "5,10,20",
    seeds: Annotated[
        int, typer.Option(help="Seeds for each curve; deterministic searchers run once.", rich_help_panel=SEARCH)
    ] = 100,
    generate: Annotated[
        int, typer.Option(help="How many curves to generate; the six shapes take turns.", rich_help_panel=WHAT)
    ] = 60,
    curve_seed: Annotated[int, typer.Option(help="Seed of the curves.", rich_help_panel=WHAT)] = 0,
    noise: Annotated[
        str, typer.Option(help="Noise of generated curves, LOW:HIGH in units of their range.", rich_help_panel=WHAT)
    ] = "0.005:0.05",
    cliffs: Annotated[
        float, typer.Option(help="Share of generated curves whose small ages break the limits.", rich_help_panel=WHAT)
    ] = 0.6,
    plateaus: Annotated[
        float, typer.Option(help="Share of generated curves that are flat at the top.", rich_help_panel=WHAT)
    ] = 0.3,
    surfaces: Annotated[
        int | None,
        typer.Option(
            help="Whole studies instead, on so many made workloads: what is put into service.", rich_help_panel=WHAT
        ),
    ] = None,
    params: Annotated[
        int, typer.Option(help="How many parameters are tuned: 1 to 6, of a recording 1 to 4.", rich_help_panel=WHAT)
    ] = 1,
    surface: Annotated[
        str | None,
        typer.Option(
            help="Whole studies on a simulator of your own, FILE.py:FUNCTION (with --tune), or on a recording.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    tunables: options.Tunables = None,
    scheme: options.SchemeText = None,
    scorer: options.Scorer = "daos",
    results: Results = RESULTS,
    form: Annotated[
        str,
        typer.Option(
            "--format", help="table or json.", autocompletion=complete.choices("table", "json"), rich_help_panel=OUTPUT
        ),
    ] = "table",
) -> None:
    """Race searchers on curves whose best point is known: regret, broken limits, time per ask.

    With --surfaces or --surface, on whole studies: what is lost after the validation, and what truly breaks a limit.

    Example: damoos bench searchers --searchers auto,daos,optuna:tpe --generate 1000
    """
    if surfaces is not None or surface is not None:
        asked, what = _surfaces(surfaces, params, surface, tunables, scheme, seeds, curve_seed, results)
        _whole_studies(asked, what, scorer, searchers, trials, form)
        return
    from damoos.bench.curves import Recipe, load
    from damoos.bench.curves import generate as make
    from damoos.bench.searchers import names, table

    check_format(form, "table")
    if curves is None:
        low, _, high = noise.partition(":")
        pool = make(positive(generate, "--generate"), curve_seed, Recipe((number(low), number(high)), cliffs, plateaus))
    else:
        pool = load(curves)
    budgets = [int(number(word)) for word in trials.split(",")]
    rows = table(pool, names(searchers), budgets, seeds)
    if form == "json":
        print(json.dumps(rows, indent=2))
        return
    print(
        show_count(len(pool), "curve")
        + (f" of {curves}" if curves else f" made with seed {curve_seed}")
        + f", {show_count(seeds, 'seed')}"
    )
    print(f"{'searcher':<16} {'trials':>6} {'regret':>8} {'95 % interval':>18} {'limit broken':>13} {'ms/ask':>7}")
    for row in rows:
        interval = "[{:.4f}, {:.4f}]".format(*row["regret_ci95"])
        print(
            f"{row['searcher']:<16} {row['trials']:>6} {row['regret']:>8.4f} {interval:>18}"
            f" {row['infeasible_rate']:>12.1%} {row['ask_ms']:>7.2f}"
        )


def _surfaces(
    count: int | None, params: int, name: str | None, tunables: list[str] | None, scheme: str | None, seeds: int,
    seed: int, results: Path,
) -> tuple[list[Surface], str]:  # fmt: skip
    """The surfaces that were asked for, and what they are."""
    from damoos.bench import recorded, surfaces
    from damoos.study.config import PRCL

    if name is None:
        made = surfaces.generate(positive(count or 0, "--surfaces"), seed, params)
        return made, f"{len(made)} surfaces made with seed {seed}, a model of workloads"
    if ":" in name:
        template = PRCL if scheme is None else scheme_text(scheme)
        one, what = surfaces.load(name, tunables or ["min_age=0s:60s"], template), name
    else:
        if tunables or scheme:
            raise ConfigError(
                "--surface RECORDING takes neither --tune nor --scheme; give the number of parameters by --params"
            )
        one, what = recorded.surface(name, results, params), f"{name}, what it lets one expect, as a model"
    return [one] * positive(seeds, "--seeds"), f"{what}, {show_count(seeds, 'seed')}"


def _whole_studies(pool: list[Surface], what: str, scorer: str, searchers: str, trials: str, form: str) -> None:
    from damoos.bench import simulated
    from damoos.bench.searchers import names

    check_format(form, "table")
    rows = simulated.table(pool, names(searchers), [int(number(word)) for word in trials.split(",")], scorer)
    if form == "json":
        print(json.dumps(rows, indent=2))
        return
    print(what)
    print(f"{'searcher':<16} {'trials':>6} {'lost':>7} {'95 % interval':>16} {'before':>7} {'broken':>7} {'runs':>5}")
    for row in rows:
        interval = "[{:.3f}, {:.3f}]".format(*row["lost_ci95"]) if row["lost_ci95"] else "-"
        print(
            f"{row['searcher']:<16} {row['trials']:>6} {row['lost']:>7.3f} {interval:>16} {row['lost_before']:>7.3f}"
            f" {row['broken']:>7.1%} {row['runs']:>5.0f}"
        )


@bench.command("aa")
def bench_aa(
    workload: Annotated[
        str | None,
        typer.Option(help="Workload name or TOML file; see 'damoos workloads'.", autocompletion=complete.workloads),
    ] = None,
    command: Annotated[str | None, typer.Option(help="Run this command line instead.")] = None,
    machine: Annotated[
        str, typer.Option(help="Machine name or TOML file; see 'damoos machines'.", autocompletion=complete.machines)
    ] = "guest",
    rounds: Annotated[int, typer.Option(help="How often the workload runs without and under the scheme.")] = 12,
    repeats: Annotated[int, typer.Option(help="The most rounds of validation in each simulated study.")] = 6,
    scorer: Annotated[
        str, typer.Option("--score", help="Scorer, as for 'damoos tune'.", autocompletion=complete.scorers)
    ] = "daos",
    made: Annotated[
        int | None,
        typer.Option(help="Simulate this many studies for each slowdown and noise instead; no machine is needed."),
    ] = None,
    form: Format = "text",
) -> None:
    """Show how often a winner is declared although there is none, from real runs of one scheme.

    Example: damoos bench aa --workload parsec3/raytrace --rounds 12
    """
    if made is not None:
        check_format(form)
        if workload or command:
            raise ConfigError("--made needs no workload: it simulates; leave --workload and --command out")
        if not 1 <= made <= MOST_MADE:
            raise ConfigError(f"--made {made}: give 1 to {MOST_MADE}")
        _made_winners(made, form)
        return
    from damoos.bench import aa
    from damoos.scorers import scorer as scorer_of
    from damoos.study.run_config import RunConfig

    check_format(form)
    score = scorer_of(scorer)
    config = RunConfig(workload=workload, command=command, machine=machine)
    config.check()
    if repeats < 2:
        raise ConfigError(f"--repeats {repeats}: too few for an interval; give 2 or more")
    aa.check_rounds(rounds, repeats)
    without, under, what = aa.run(config, rounds, say)
    rates = {"what": what, "runs": 2 * rounds, **aa.false_winners(without, under, score, repeats)}
    if form == "json":
        print(json.dumps(rates, indent=2))
        return
    print(
        f"{what}: {show_count(rates['runs'], 'run')}, {show_count(rates['studies'], 'study')} drawn from them,"
        f" at most {show_count(repeats, 'round')} each"
    )
    for question, says in (("schemes", "arms of one scheme"), ("baselines", "baselines")):
        low, high = rates[question]["ci95"]
        print(f"false winners among {says}: {rates[question]['false_winners']:.2%} [{low:.2%}, {high:.2%}]  (bar: 5 %)")


def _made_winners(nr_studies: int, form: str) -> None:
    from damoos.bench.duels import false_winners

    rows = false_winners(nr_studies)
    if form == "json":
        print(json.dumps(rows, indent=2))
        return
    print(f"two identical made schemes, {show_count(nr_studies, 'study')} each; false winners (bar: 5 %)")
    print(f"{'slowdown':>8} {'noise':>6} {'false winners':>13} {'kept':>5} {'runs':>5}")
    for row in rows:
        print("{slowdown:>8.0%} {noise:>6.1%} {false_winners:>13.1%} {kept:>5.0%} {runs:>5.1f}".format(**row))


@bench.command("monitor")
def bench_monitor(
    machine: Annotated[
        str, typer.Option(help="Machine name or TOML file; see 'damoos machines'.", autocompletion=complete.machines)
    ] = "large",
    sizes: Annotated[str, typer.Option(help="Memory of the targets, comma-separated.")] = "64M,256M,1G,2G",
    rounds: Annotated[int, typer.Option(help="Runs of each; they take turns.")] = 3,
    form: Format = "text",
) -> None:
    """Measure how well DAMON sees known access patterns, and what the monitoring costs.

    Example: damoos bench monitor --sizes 64M,256M --machine guest
    """
    from damoos.bench import monitor
    from damoos.machines import catalog
    from damoos.units import parse_bytes

    check_format(form)
    positive(rounds, "--rounds")
    catalog.machine(machine)
    facts, rows = monitor.run(machine, [parse_bytes(word) for word in sizes.split(",") if word], rounds, say)
    _print_measured(machine, facts, [monitor.as_json(row) for row in rows], monitor.text(rows), form)


@bench.command("truth")
def bench_truth(
    workloads: Annotated[
        str,
        typer.Option(
            help="Workloads, comma-separated; by default five real programs.", autocompletion=complete.workloads
        ),
    ] = "",
    machine: Annotated[
        str, typer.Option(help="A guest whose accesses are counted.", autocompletion=complete.machines)
    ] = "guest-counted",
    config: Annotated[
        str,
        typer.Option(
            help="What DAMON watches: rec, the processes; prec, all of the machine's memory.",
            autocompletion=complete.choices("rec", "prec"),
        ),
    ] = "rec",
    min_regions: Annotated[int, typer.Option(help="Least number of regions.")] = 10,
    form: Format = "text",
) -> None:
    """Measure how well DAMON sees real programs, and what 'damoos predict' makes of it, beside a count of every access.

    Example: damoos bench truth --workloads redis/cache,lmdb/read
    """
    from damoos.bench import truth
    from damoos.damon.attrs import Attrs
    from damoos.machines import catalog

    check_format(form)
    catalog.machine(machine)
    names = comma_separated(workloads, "--workloads") if workloads else list(truth.WORKLOADS)
    if config not in truth.CONFIGS:
        raise ConfigError(f"--config: unknown configuration '{config}'{nearest(config, truth.CONFIGS)}")
    attrs = Attrs(min_nr_regions=min_regions)
    facts, rows = truth.run(machine, names, config, attrs, say)
    _print_measured(machine, facts, [asdict(row) for row in rows], truth.text(rows), form)


_SHOWN = ("kernel", "emulation", "clock", "vcpus", "mem_bytes")


def _print_measured(
    machine: str, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], table: Sequence[str], form: str
) -> None:
    """Print what was measured, with the machine that it was measured on."""
    counter = {"access_counter": facts["access_counter"]} if "access_counter" in facts else {}
    where = {name: facts.get(name) for name in _SHOWN} | counter
    if form == "json":
        print(json.dumps({"machine": {"name": machine, **where}, "rows": rows}, indent=2))
        return
    print(f"machine {machine}: Linux {where['kernel']}, {where['emulation'] or 'hardware'}, clock {where['clock']}")
    print("\n".join(table))


@plugin.command("new")
def plugin_new(
    kind: Annotated[
        str, typer.Argument(help="scorer or searcher.", autocompletion=complete.choices("scorer", "searcher"))
    ],
    name: Annotated[str, typer.Argument(help="Short name: lower-case letters, digits, underscores.")],
    into: Annotated[Path, typer.Option(help="Folder in which the package's folder is made.")] = Path(),
) -> None:
    """Write the package of a new scorer or searcher; it installs with pip and passes its contract suite.

    Example: damoos plugin new scorer my_sla && pip install -e damoos-my_sla
    """
    from damoos.cli.templates import new_plugin

    print(new_plugin(kind, name, into))
