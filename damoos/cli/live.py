"""The commands that let people look on: at a study that another process runs, at all studies in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from damoos.cli.common import RESULTS, Results, Storage

app = typer.Typer()


@app.command()
def dashboard(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 for any that is free.")] = 8080,
    allow_writes: Annotated[
        bool, typer.Option("--allow-writes", help="Let the browser write notes, rename and delete studies.")
    ] = False,
    results: Results = RESULTS,
    storage: Storage = None,
) -> None:
    """Serve optuna-dashboard on the studies, with damoos's files, on this computer only and read-only.

    Example: damoos dashboard --port 8080
    """
    from damoos.dashboard import serve

    serve(results, storage, port, allow_writes, lambda text: print(f"dashboard: {text}", flush=True))
