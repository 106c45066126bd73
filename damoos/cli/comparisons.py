"""The commands that set things side by side: configurations, kernels, the hand-made scheme and the tuned one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from damoos.cli import complete
from damoos.cli.common import (
    FAILED,
    RESULTS,
    Format,
    Results,
    Storage,
    check_format,
    comma_separated,
    say,
    scheme_text,
)
from damoos.cli.sweeps import RayAddress, SweepFormat, begin
from damoos.errors import ConfigError

MACHINE, KERNEL = "guest", "debian"

app = typer.Typer()


@app.command()
def evaluate(
    workload_names: Annotated[
        str | None,
        typer.Option(
            "--workloads",
            help="Names, files, patterns: 'parsec3/*,splash2x/fft'.",
            autocompletion=complete.several(complete.workloads),
        ),
    ] = None,
    machine_names: Annotated[
        str | None,
        typer.Option(
            "--machines",
            help="Names, files, patterns: i3,m5d (default: guest).",
            autocompletion=complete.several(complete.machines),
        ),
    ] = None,
    configs: Annotated[
        str | None,
        typer.Option(
            help="Configurations, comma-separated: baseline, rec, prec, thp, ethp, prcl (these six are the default),"
            " listing1-ethp, listing1-prcl, v8-ethp, v8-prcl, v8-plans, or FILE.damos. The baseline always runs."
        ),
    ] = None,
    operations: Annotated[str, typer.Option(help="Of schemes: vaddr (the process tree) or paddr.")] = "vaddr",
    repeats: Annotated[int, typer.Option(help="Blocks; each holds every run once, order shuffled or turned.")] = 5,
    seed: Annotated[int | None, typer.Option(help="--configs: seed of the order in blocks (default 0).")] = None,
    require_real: Annotated[
        bool, typer.Option("--require-real", help="--configs: refuse models of workloads.")
    ] = False,
    ray: RayAddress = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="--configs: say what it would take: runs, hours.")] = False,
    kernels: Annotated[
        str | None,
        typer.Option(help="Compare kernels instead (comma-separated; 'damoos kernel list'), under one scheme."),
    ] = None,
    workload: Annotated[
        str | None, typer.Option(help="--kernels: workload name or TOML file.", autocompletion=complete.workloads)
    ] = None,
    command: Annotated[str | None, typer.Option(help="--kernels: run this command line instead.")] = None,
    machine: Annotated[
        str | None,
        typer.Option(help="--kernels: guest name or TOML file (default: guest).", autocompletion=complete.machines),
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help="--kernels: scheme text or file (default: the workload's hand-made prcl).")
    ] = None,
    tolerance: Annotated[
        str | None,
        typer.Option(help="--kernels: exit with 1 if the last is surely slower than the first by more, e.g. 2%."),
    ] = None,
    results: Results = RESULTS,
    storage: Storage = None,
    form: SweepFormat = "text",
) -> None:
    """Run workloads under several configurations, in shuffled blocks, and set each against its block's baseline.

    With --kernels: run one workload without and under one scheme on several kernels in turn instead.

    Example: damoos evaluate --workloads 'parsec3/*' --machines i3,m5d --configs baseline,rec,prec,thp,ethp,prcl

    Example: damoos evaluate --workload synthetic/hot-cold --kernels debian,damoos --repeats 5
    """
    of_configs = {
        "--workloads": workload_names, "--machines": machine_names, "--configs": configs, "--seed": seed,
        "--require-real": require_real or None, "--ray": ray, "--dry-run": dry_run or None, "--storage": storage,
    }  # fmt: skip
    of_kernels = {
        "--kernels": kernels, "--workload": workload, "--command": command, "--machine": machine, "--scheme": scheme,
        "--tolerance": tolerance,
    }  # fmt: skip
    if _of_kernels(of_configs, of_kernels):
        _evaluate_kernels(
            workload,
            command,
            machine or MACHINE,
            kernels or KERNEL,
            scheme,
            operations,
            repeats,
            tolerance,
            results,
            form,
        )
        return
    from damoos.api import comparisons
    from damoos.policies import named

    check_format(form, "jsonl")
    if workload_names is None:
        raise ConfigError("give --workloads, such as 'parsec3/*' ('damoos workloads' lists them)")
    config = comparisons.evaluation_config(
        comma_separated(workload_names, "--workloads"), comma_separated(machine_names or MACHINE, "--machines"),
        named.PAPER if configs is None else comma_separated(configs, "--configs"),
        operations=operations, repeats=repeats, seed=seed or 0, require_real=require_real,
    )  # fmt: skip
    begin(config, ray, dry_run, results, storage, form)


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
    """Set the hand-made and the tuned schemes of finished studies side by side, by machine; nothing is run.

    Example: damoos compare sweep-1
    """
    from damoos.api import comparisons

    check_format(form)
    found = comparisons.compare(names, results=results, storage=storage)
    written = found.write(comparisons.folder_of(names, results))
    if form == "json":
        print(json.dumps(found.result))
        return
    print(repr(found))
    print("\n".join(map(str, written)))


def _of_kernels(of_configs: dict[str, Any], of_kernels: dict[str, Any]) -> bool:
    """Which of its two things 'damoos evaluate' is asked for; ConfigError for a mix that makes no sense."""
    these = [name for name, value in of_configs.items() if value is not None]
    those = [name for name, value in of_kernels.items() if value is not None]
    if these and those:
        raise ConfigError(
            f"{these[0]} and {those[0]} do not go together: configurations are compared by --workloads, --machines and"
            " --configs, kernels by --workload or --command, --machine, --kernels and --scheme"
        )
    return bool(those)


def _evaluate_kernels(
    workload: str | None, command: str | None, machine: str, kernels: str, scheme: str | None, operations: str,
    repeats: int, tolerance: str | None, results: Path, form: str,
) -> None:  # fmt: skip
    from damoos.comparison.kernels import Evaluation, slower_by, text
    from damoos.study.config import StudyConfig
    from damoos.units import parse_percent

    check_format(form)
    allowed = None if tolerance is None else float(parse_percent(tolerance)) / 100
    evaluation = Evaluation(
        StudyConfig(workload=workload, command=command, machine=machine, nr_samples=2, operations=operations),
        comma_separated(kernels, "--kernels"),
        None if scheme is None else scheme_text(scheme),
        repeats=repeats,
    )
    if allowed is not None and len(evaluation.kernels) < 2:
        raise ConfigError("--tolerance compares kernels: give two or more with --kernels")
    found = evaluation.run(results, say)
    print(json.dumps(found, indent=2) if form == "json" else text(found))
    if allowed is not None and slower_by(found) > allowed:
        raise typer.Exit(FAILED)
