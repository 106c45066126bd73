"""The commands about the cache of images, kernels, suites and helpers."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from damoos.cli.common import Format, check_format, confirm, say, time_us
from damoos.errors import ConfigError

if TYPE_CHECKING:
    from damoos.common.cache import Entry

cache = typer.Typer(no_args_is_help=True, help="The cache of images, kernels and suites.\n\nExample: damoos cache show")

# Long enough that no study still has an image which only another version of damoos made.
UNUSED = "720h"


@cache.command()
def show(form: Format = "text") -> None:
    """Show what the cache holds, how large each part is, and when it was used last.

    Example: damoos cache show
    """
    from damoos.common import cache as cached
    from damoos.common import paths
    from damoos.units import show_bytes

    check_format(form)
    found = cached.entries()
    if form == "json":
        rows = [
            {"part": one.part, "path": str(one.path), "names": one.names, "bytes": one.sz_bytes, "used": one.used}
            for one in found
        ]
        print(json.dumps({"cache": str(paths.cache()), "entries": rows}, indent=2))
        return
    for one in found:
        used = time.strftime("%Y-%m-%d", time.localtime(one.used))
        print(f"{cached.PARTS[one.part]:<15} {show_bytes(one.sz_bytes):>9}  {used}  {_called(one)}")
    print(f"{'all':<15} {show_bytes(sum(one.sz_bytes for one in found)):>9}  {'':<10}  {paths.cache()}")


@cache.command()
def clean(
    unused: Annotated[
        str, typer.Option(help="What was not used for this time; kernels and suites that have a name stay.")
    ] = UNUSED,
    everything: Annotated[bool, typer.Option("--all", help="All of it, kernels and suites, too.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete what the cache holds and nobody has used for a while; what is needed again is made again.

    Example: damoos cache clean --unused 168h
    """
    from damoos.common import cache as cached
    from damoos.units import show_bytes

    found = cached.entries() if everything else cached.unused(time_us(unused, "--unused") / 1e6)
    if not found:
        print("nothing to delete")
        return
    for one in found:
        if processes := cached.users(one):
            raise ConfigError(
                f"process {processes[0]} uses {one.path}; wait for its end, or stop it. Nothing is deleted"
            )
    size = show_bytes(sum(one.sz_bytes for one in found))
    if not yes:
        for one in found:
            say(f"{cached.PARTS[one.part]} {_called(one)}")
        confirm(f"delete these, {size}?")
    for one in found:
        cached.remove(one)
        print(f"deleted: {_called(one)}")
    print(f"freed: {size}")


def _called(entry: Entry) -> str:
    """Its file, and the names that people have for it."""
    others = [name for name in entry.names if name != entry.path.name]
    return f"{entry.path.name} ({', '.join(others)})" if others else entry.path.name
