"""The command that builds what guests are made of."""

from __future__ import annotations

import typer

from damoos.cli.common import say

app = typer.Typer()


@app.command()
def setup() -> None:
    """Build the guest's kernel and image now; 'damoos tune' builds them when they are missing.

    Example: damoos setup
    """
    from damoos.machines.guest.accel import choose
    from damoos.machines.guest.image import image
    from damoos.machines.guest.kernels import DEBIAN, kernel

    built, boots = image(say), kernel(DEBIAN, say)
    accelerator = choose("auto", built, say)
    say(f"guest image {built.path}, kernel {boots.path}, accelerator {accelerator.name}")
