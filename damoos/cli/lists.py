"""The commands about where there is to run."""

from __future__ import annotations

import typer

from damoos.cli.common import Format, check_format, print_rows, say

app = typer.Typer()


@app.command()
def machines(form: Format = "text") -> None:
    """List the machines.

    Example: damoos machines
    """
    from damoos.machines import catalog

    check_format(form)
    print_rows([{"name": name, "description": catalog.machine(name).describe()} for name in catalog.names()], form)


@app.command()
def setup() -> None:
    """Build the guest's kernel and image now; 'damoos tune' does it by itself when they are missing.

    Example: damoos setup
    """
    from damoos.machines.guest.accel import choose
    from damoos.machines.guest.image import image
    from damoos.machines.guest.kernels import DEBIAN, kernel

    built, boots = image(say), kernel(DEBIAN, say)
    accelerator = choose("auto", built, say)
    say(f"guest image {built.path}, kernel {boots.path}, accelerator {accelerator.name}")
