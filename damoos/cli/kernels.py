"""The commands about kernels: which there are, what each has, and how they differ."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from damoos.cli import complete, options
from damoos.cli.common import (
    FAILED,
    RESULTS,
    Format,
    MarkdownFormat,
    Results,
    Storage,
    check_format,
    comma_separated,
    say,
)
from damoos.errors import ConfigError
from damoos.policies.documents import scheme_text
from damoos.units import show_count
from damoos.words import POLICY, SCORE, SEARCH, WHERE

kernel = typer.Typer(
    help="Kernels that guests can boot: Debian's, damoos's own, yours.\n\nExample: damoos kernel list",
    no_args_is_help=True,
)


@kernel.command("add")
def kernel_add(
    name: Annotated[str, typer.Argument(help="Its name: letters, digits, '-' and '.'.")],
    bzimage: Annotated[Path | None, typer.Option(help="arch/x86/boot/bzImage of a build.")] = None,
    modules: Annotated[
        Path | None,
        typer.Option(
            help="Folder of its modules, as 'make modules_install' writes it; leave it out if all is built in."
        ),
    ] = None,
    packages: Annotated[
        list[Path] | None,
        typer.Option(
            "--package",
            help="Debian package of the kernel; repeat it for the one of its modules. Or the folder of unpacked"
            " packages of any distribution.",
        ),
    ] = None,
) -> None:
    """Add a kernel of your own to the cache; a kernel of the same name is replaced.

    Example: damoos kernel add mine --bzimage ~/linux/arch/x86/boot/bzImage
    """
    from damoos.machines.guest import kernels

    if bzimage and not packages:
        added = kernels.add(bzimage, modules, name)
    elif packages and not bzimage and not modules:
        added = kernels.add_packages(packages, name)
    else:
        raise ConfigError("give either --bzimage (and --modules), or --package")
    print(f"{added.name}: Linux {added.release}, {added.path}")


@kernel.command("fetch")
def kernel_fetch(
    name: Annotated[
        str,
        typer.Argument(
            help="debian (its 6.12), debian-newest, or debian-VERSION, such as debian-6.18.",
            autocompletion=complete.choices("debian", "debian-newest"),
        ),
    ],
) -> None:
    """Fetch the newest of one of Debian's kernels; the one before is kept under the name of its version.

    Example: damoos kernel fetch debian-newest
    """
    from damoos.machines.guest import kernels

    fetched = kernels.fetch(name, say)
    print(f"{fetched.name}: Linux {fetched.release}, {fetched.path}")


@kernel.command("list")
def kernel_list(
    form: MarkdownFormat = "text",
) -> None:
    """List the kernels and their features; a kernel is booted the first time, which takes about 20 s.

    Example: damoos kernel list
    """
    from damoos.machines.guest import kernels
    from damoos.machines.guest.features import features

    check_format(form, "markdown")
    names = kernels.names()
    table = features(names, say)
    about = {name: {"release": kernels.kernel(name).release, **table[name]} for name in names}
    if form == "json":
        print(json.dumps([{"name": name, **features} for name, features in about.items()], indent=2))
    elif form == "markdown":
        print("\n".join(_markdown(about)))
    else:
        for name, facts in about.items():
            print(name)
            print("\n".join(f"  {feature:<38} {value}" for feature, value in facts.items()))


@kernel.command("test")
def kernel_test(
    name: Annotated[
        str, typer.Argument(help="A name that 'damoos kernel list' shows.", autocompletion=complete.kernels)
    ] = "damoos",
    form: Format = "text",
) -> None:
    """Run DAMON's KUnit tests and kselftests on a kernel, print one line for each; exit with 1 if one has failed.

    Example: damoos kernel test damoos
    """
    from damoos.machines.guest import kselftest, kunit

    check_format(form)
    tests = [*kunit.run(name, say), *kselftest.run(name, say)]
    failed = [test for test in tests if test.state == "not ok"]
    if form == "json":
        print(json.dumps([asdict(test) for test in tests], indent=2))
    else:
        print("\n".join(map(str, tests)))
        skipped = sum(test.state == "skip" for test in tests)
        print(f"{show_count(len(tests), 'test')}, {len(failed)} failed, {skipped} skipped")
    if failed:
        raise typer.Exit(FAILED)


@kernel.command("remove")
def kernel_remove(
    name: Annotated[
        str, typer.Argument(help="A name that 'damoos kernel list' shows.", autocompletion=complete.kernels)
    ],
) -> None:
    """Remove a kernel from the cache.

    Example: damoos kernel remove mine
    """
    from damoos.machines.guest import kernels

    say(kernels.remove(name))


@kernel.command("compare")
def kernel_compare(
    names: Annotated[
        str,
        typer.Option(
            "--kernels",
            help="Comma-separated; the first is the one that the others are compared with.",
            autocompletion=complete.several(complete.kernels),
            rich_help_panel=WHERE,
        ),
    ],
    workload: options.Workload = None,
    command: options.CommandLine = None,
    machine: options.Guest = "guest",
    scheme: Annotated[
        str | None,
        typer.Option(help="Scheme text or file (default: the manual scheme, prcl).", rich_help_panel=POLICY),
    ] = None,
    operations: options.Operations = "vaddr",
    repeats: Annotated[
        int,
        typer.Option(help="Rounds; each runs every kernel without and under the scheme.", rich_help_panel=SEARCH),
    ] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the order in rounds.", rich_help_panel=SEARCH)] = 0,
    tolerance: Annotated[
        str | None,
        typer.Option(
            help="Exit with 1 if the last kernel is slower than the first by more than this, e.g. 2%.",
            rich_help_panel=SCORE,
        ),
    ] = None,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Run one workload on several kernels in turn, without and under a scheme, and show how the kernels differ.

    A comparison that was interrupted goes on when the same command is given again.

    Example: damoos kernel compare --workload synthetic/hot-cold --kernels debian,damoos --repeats 5
    """
    from damoos.cli.studies import Watching
    from damoos.comparison.kernels import KernelComparison, check_complete, scheme_form, slower_by
    from damoos.report.comparison.kernels import text
    from damoos.study.run_config import RunConfig
    from damoos.units import parse_percent

    check_format(form)
    allowed = None if tolerance is None else float(parse_percent(tolerance)) / 100
    kernels = comma_separated(names, "--kernels")
    if allowed is not None and len(kernels) < 2:
        raise ConfigError("--tolerance compares kernels: give two or more with --kernels")
    run = RunConfig(workload=workload, command=command, machine=machine)
    policy = scheme_form(run, None if scheme is None else scheme_text(scheme), operations)
    comparison = KernelComparison(run, dict.fromkeys(kernels, policy), repeats, seed)
    with Watching() as watcher:
        result = comparison.conduct(results, storage, watcher)
    print(json.dumps(result, indent=2) if form == "json" else text(result))
    check_complete(result)
    if allowed is not None and slower_by(result) > allowed:
        raise typer.Exit(FAILED)


def _markdown(about: dict[str, dict[str, Any]]) -> list[str]:
    names = list(about)
    lines = [f"| | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for feature in max(about.values(), key=len):
        lines.append(f"| {feature} | {' | '.join(about[name].get(feature, '?') for name in names)} |")
    return lines
