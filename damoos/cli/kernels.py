"""The commands about kernels: which there are, and what each has."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from damoos.cli.common import FAILED, Format, check_format, say

kernel = typer.Typer(
    help="Kernels that guests can boot: Debian's, damoos's own, yours.\n\nExample: damoos kernel list",
    no_args_is_help=True,
)


@kernel.command("add")
def kernel_add(
    name: Annotated[str, typer.Argument(help="What to call it: letters, digits, '-' and '.'.")],
    bzimage: Annotated[Path, typer.Option(help="arch/x86/boot/bzImage of a build.")],
    modules: Annotated[
        Path | None, typer.Option(help="Its modules, as 'make modules_install' lays them; none if all is built in.")
    ] = None,
) -> None:
    """Take a kernel of your own into the cache; the same name again replaces it.

    Example: damoos kernel add mine --bzimage ~/linux/arch/x86/boot/bzImage
    """
    from damoos.machines.guest import kernels

    found = kernels.add(bzimage, modules, name)
    print(f"{found.name}: Linux {found.release}, {found.path}")


@kernel.command("list")
def kernel_list(
    form: Annotated[str, typer.Option("--format", help="text, json or markdown.")] = "text",
) -> None:
    """List the kernels and what each has; one that has not been probed yet is booted for it, about 20 s.

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
        for name, found in about.items():
            print(name)
            print("\n".join(f"  {feature:<38} {value}" for feature, value in found.items()))


@kernel.command("test")
def kernel_test(
    name: Annotated[str, typer.Argument(help="A name that 'damoos kernel list' shows.")] = "damoos",
    form: Format = "text",
) -> None:
    """Boot a kernel with DAMON's KUnit tests and print one line for each; exit with 1 if one has failed.

    Example: damoos kernel test damoos
    """
    from damoos.machines.guest import kunit

    check_format(form)
    found = kunit.run(name, say)
    failed = [one for one in found if one.state == "not ok"]
    if form == "json":
        print(json.dumps([asdict(one) for one in found], indent=2))
    else:
        print("\n".join(map(str, found)))
        print(f"{len(found)} tests, {len(failed)} failed")
    if failed:
        raise typer.Exit(FAILED)


@kernel.command("remove")
def kernel_remove(name: Annotated[str, typer.Argument(help="A name that 'damoos kernel list' shows.")]) -> None:
    """Forget a kernel.

    Example: damoos kernel remove mine
    """
    from damoos.machines.guest import kernels

    kernels.remove(name)


def _markdown(about: dict[str, dict[str, Any]]) -> list[str]:
    names = list(about)
    lines = [f"| | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
    for feature in max(about.values(), key=len):
        lines.append(f"| {feature} | {' | '.join(about[name].get(feature, '?') for name in names)} |")
    return lines
