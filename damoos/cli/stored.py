"""The commands about what is stored: lists of studies, one of them, and how to get rid of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from damoos.cli import complete
from damoos.cli.common import RESULTS, Format, Results, Storage, check_format, confirm, say
from damoos.errors import ConfigError, NothingFeasible

if TYPE_CHECKING:
    from damoos.api import EvaluatedStudy, TunedStudy
    from damoos.store.listing import Listed
    from damoos.study.config import StudyConfig
    from damoos.study.evaluation_config import EvaluationConfig

app = typer.Typer()
studies = typer.Typer(invoke_without_command=True)

Unfinished = Annotated[bool, typer.Option("--unfinished", help="Only studies that have no result yet.")]


@studies.callback()
def list_studies(
    context: typer.Context,
    unfinished: Unfinished = False,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """List the studies, newest last.

    Example: damoos studies --unfinished
    """
    if not context.invoked_subcommand:
        _print_all(unfinished, results, storage, form)


@studies.command("list")
def list_again(
    unfinished: Unfinished = False, results: Results = RESULTS, storage: Storage = None, form: Format = "text"
) -> None:
    """List the studies, as 'damoos studies' does.

    Example: damoos studies list
    """
    _print_all(unfinished, results, storage, form)


@studies.command()
def delete(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Studies, or sweeps with all of their studies.", autocompletion=complete.studies_and_sweeps
        ),
    ] = None,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="All studies that have no result yet, but for those of sweeps.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    results: Results = RESULTS,
    storage: Storage = None,
) -> None:
    """Delete studies with their raw data and figures.

    Example: damoos studies delete parsec3-raytrace-guest-1
    """
    from damoos.service import listing
    from damoos.store.studies import Store
    from damoos.sweeps import removal

    if bool(names) == unfinished:
        raise ConfigError("give the names of the studies that are to be deleted, or --unfinished")
    store = Store.there(results, storage)
    found = removal.unfinished(store, results) if unfinished else removal.named(store, results, names or [])
    if not found:
        print("nothing to delete")
        return
    for served, state in listing.listed(results).items():
        if state["study"] in found and "failed" not in state:
            raise ConfigError(f"study '{state['study']}' is in service; end that with 'damoos stop {served}'")
    if not yes:
        confirm(f"delete {', '.join(found)} with all raw data in {results}?")
    for name in found:
        removal.delete(store, results, name)
        print(f"deleted: {name}")


def _print_all(unfinished: bool, results: Path, storage: str | None, form: str) -> None:
    from damoos.store.studies import Store
    from damoos.study.study import with_configs

    check_format(form)
    store = Store.there(results, storage)
    found, broken = store.listed() if store else ([], [])
    readable, others = with_configs(found)
    for name in [*broken, *others]:
        say(f"study '{name}' cannot be read: its name or its words are broken; 'damoos studies delete {name}'")
    rows = [_row(study, config) for study, config in readable if not (unfinished and study.result is not None)]
    if form == "json":
        print(json.dumps(rows, indent=2))
        return
    widths = [max((len(row[name]) for row in rows), default=0) for name in ("study", "machine")]
    for row in rows:
        names = f"{row['study']:<{widths[0]}}  {row['machine']:<{widths[1]}}"
        print(f"{names}  {row['trials']:>3}/{row['nr_samples']} {row['of']}  {row['state']}")


def _row(study: Listed, config: StudyConfig | EvaluationConfig) -> dict[str, Any]:
    from damoos.study.evaluation_config import EvaluationConfig

    result = study.result
    return {
        "study": study.name,
        "workload": config.target,
        "machine": config.machine,
        "nr_samples": config.nr_steps,
        "trials": study.nr_done,
        "of": "runs" if isinstance(config, EvaluationConfig) else "trials",
        "state": "unfinished" if result is None else f"done: {result.get('verdict', 'configurations compared')}",
        "recommended": (result or {}).get("recommended"),
        "created": study.created,
    }


@app.command()
def show(
    names: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME...",
            help="A study, or a sweep; several are compared, as 'damoos compare' does.",
            autocompletion=complete.studies_and_sweeps,
        ),
    ],
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit", help="What the study expects under this limit, e.g. 'slowdown<=0.02'; several times for several."
        ),
    ] = None,
    pid: Annotated[int | None, typer.Option(help="Process id for --format damo.")] = None,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="text, json, csv (a row for each run), or damo (for 'damo start').",
            autocompletion=complete.choices("text", "json", "csv", "damo"),
        ),
    ] = "text",
) -> None:
    """Show one study: its runs, the recommended scheme, the validation.

    Example: damoos show parsec3-raytrace-guest-1 --format damo --pid 4711 > s.json && damo start s.json
    """
    from damoos import api
    from damoos.cli.comparisons import compare
    from damoos.cli.sweeps import show_status
    from damoos.report.tables import frame_to_csv
    from damoos.sweeps import sweep as sweeps

    check_format(form, "csv", "damo")
    is_sweep = names[0] in sweeps.names(results)
    if len(names) > 1 or is_sweep:
        if limits or form not in ("text", "json"):
            raise ConfigError(f"--limit and --format {form} are for one study, and {', '.join(names)} is more")
        if len(names) > 1:
            compare(names, results, storage, form)
        else:
            show_status(names[0], results, form)
        return
    stored = api.load_study(names[0], results=results, storage=storage)
    if limits:
        _print_prospect(stored, limits, pid, form)
    elif form == "damo":
        if isinstance(stored, api.EvaluatedStudy):
            raise ConfigError(f"study '{stored.name}' compares configurations; it recommends no scheme")
        print(json.dumps(stored.damo(pid), indent=2))
    elif form == "csv":
        print(frame_to_csv(stored.runs_df), end="")
    elif form == "json":
        print(json.dumps(stored.result or _unfinished(stored), indent=2))
    else:
        _print_text(stored)


def _unfinished(stored: TunedStudy | EvaluatedStudy) -> dict[str, Any]:
    """The name of a study without a result, and its runs or trials."""
    from damoos import api

    rows = stored.runs_df if isinstance(stored, api.EvaluatedStudy) else stored.trials_df
    key = "runs" if isinstance(stored, api.EvaluatedStudy) else "trials"
    return {"study": stored.name, key: json.loads(rows.to_json(orient="records"))}


def _print_text(stored: TunedStudy | EvaluatedStudy) -> None:
    """The runs as they were told while they ran, then what they have come to."""
    from damoos.report.study import rows

    if not stored.study.record.get("setting"):
        print(f"study {stored.name}: it has not reached its machine yet; continue it with: damoos resume {stored.name}")
        return
    print(rows.table(stored.study) or "no runs yet")
    print(repr(stored))
    if not stored.result:
        print(f"continue it with: damoos resume {stored.name}")


def _print_prospect(stored: TunedStudy | EvaluatedStudy, limits: list[str], pid: int | None, form: str) -> None:
    """What a study expects under other limits than its own; an error of its own where it knows no point."""
    from damoos import api
    from damoos.report.study import frontier

    if isinstance(stored, api.EvaluatedStudy):
        raise ConfigError(f"study '{stored.name}' compares configurations; it knows nothing of other limits")
    found = stored.prospect(*limits)
    if found is None:
        raise NothingFeasible(frontier.single(stored.study, limits, found))
    if form == "damo":
        print(json.dumps(stored.damo_of(found.params, pid), indent=2))
    elif form != "text":
        print(json.dumps({"study": stored.name, **found.to_json(stored.study)}, indent=2))
    else:
        print(frontier.single(stored.study, limits, found))
