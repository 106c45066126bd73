"""The commands. Everything heavy is imported inside them, so that ``--help`` is quick."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from damoos.errors import ConfigError, DamoosError, NothingFeasible, nearest

if TYPE_CHECKING:
    from damoos.api import TunedStudy
    from damoos.study import Study

app = typer.Typer(
    help="Find the best DAMON-based scheme for a workload on a machine, prove it, put it into service.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

plugin_app = typer.Typer(help="Write plugins.", no_args_is_help=True)
app.add_typer(plugin_app, name="plugin")
bench_app = typer.Typer(help="Measure damoos itself: its searchers, its verdicts.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")

Results = Annotated[Path, typer.Option(help="Folder of studies and raw data.")]
Storage = Annotated[str | None, typer.Option(help="Optuna storage URL; default: SQLite in the results folder.")]
Format = Annotated[str, typer.Option("--format", help="text or json (one object on stdout, logs on stderr).")]
StudyName = Annotated[str, typer.Argument(help="Name of a study; 'damoos studies' lists them.")]

RESULTS = Path("results")
INTERRUPTED = 130


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback for errors.")] = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Take the options that all commands share."""
    if version:
        from damoos import __version__

        print(f"damoos {__version__}")
        raise typer.Exit


@app.command()
def tune(
    workload: Annotated[str | None, typer.Option(help="Workload name or TOML file; see 'damoos workloads'.")] = None,
    command: Annotated[str | None, typer.Option(help="Tune for this command line instead.")] = None,
    machine: Annotated[str, typer.Option(help="Machine name or TOML file; see 'damoos machines'.")] = "guest",
    trials: Annotated[int | None, typer.Option(help="Number of trials (default 10).")] = None,
    time_limit: Annotated[
        str | None, typer.Option(help="Time for all trials, e.g. 1h; trials = limit / unit work.")
    ] = None,
    unit_work: Annotated[str | None, typer.Option(help="Time of one run, for --time-limit.")] = None,
    scheme: Annotated[str | None, typer.Option(help="Scheme text or file; MIN_AGE is tuned (default: prcl).")] = None,
    tunables: Annotated[
        list[str] | None, typer.Option("--tune", help="Range or choice, several times: min_age=0s:60s, max_freq=0:20.")
    ] = None,
    operations: Annotated[str, typer.Option(help="vaddr (the process tree) or paddr (all memory).")] = "vaddr",
    scorer: Annotated[
        str, typer.Option("--score", help="daos, sla, weighted, cost, psi, FILE.py:FUNCTION, or a program (a path).")
    ] = "daos",
    maximize: Annotated[str | None, typer.Option(help="sla: the metric to maximise.")] = None,
    minimize: Annotated[str | None, typer.Option(help="sla: the metric to minimise.")] = None,
    limits: Annotated[
        list[str] | None, typer.Option("--limit", help="sla, weighted, cost: 'slowdown<=0.05', 'p99_ms<=1.2x'.")
    ] = None,
    weights: Annotated[list[str] | None, typer.Option("--weight", help="weighted: memory_saving=0.7.")] = None,
    prices: Annotated[str | None, typer.Option(help="cost: TOML file with gib_hour and core_hour.")] = None,
    searcher: Annotated[
        str, typer.Option(help="auto, bayes, daos (the paper's), random, grid, anneal, or optuna:NAME.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the searcher.")] = 0,
    repeats: Annotated[int, typer.Option(help="Rounds of validation; close calls get more.")] = 3,
    candidates: Annotated[int, typer.Option(help="How many of the best points are validated.")] = 2,
    run_limit: Annotated[str | None, typer.Option(help="A run that takes longer hangs, e.g. 5m.")] = None,
    require_real: Annotated[bool, typer.Option("--require-real", help="Refuse a model of the workload.")] = False,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Tune a scheme for a workload: baselines, trials, recommendation, validation, verdict.

    Example: damoos tune --workload parsec3/raytrace --trials 10
    """
    from damoos import api
    from damoos.study import PRCL
    from damoos.units import parse_us

    _check_format(form)
    options = {"maximize": maximize, "minimize": minimize, "limits": limits, "weights": weights, "prices": prices}
    settings: dict[str, Any] = {
        "scheme": PRCL if scheme is None else _scheme_text(scheme),
        "tune": tunables or [],
        "operations": operations,
        "scorer": scorer,
        "scorer_options": {name: value for name, value in options.items() if value},
        "searcher": searcher,
        "seed": seed,
        "repeats": repeats,
        "candidates": candidates,
        "run_limit_s": None if run_limit is None else parse_us(run_limit) / 1e6,
        "require_real": require_real,
    }
    number = _nr_trials(workload, trials, time_limit, unit_work)
    with _Watching() as watcher:
        found = api.tune(
            workload, command=command, machine=machine, trials=number, results=results, storage=storage,
            watcher=watcher, **settings,
        )  # fmt: skip
    _print_result(found, form, results)


@app.command()
def resume(study: StudyName, results: Results = RESULTS, storage: Storage = None, form: Format = "text") -> None:
    """Go on with an interrupted study; no finished trial is repeated.

    Example: damoos resume parsec3-raytrace-guest-1
    """
    from damoos import api

    _check_format(form)
    with _Watching() as watcher:
        found = api.resume(study, results=results, storage=storage, watcher=watcher)
    _print_result(found, form, results)


@app.command()
def apply(
    study: StudyName,
    arm: Annotated[str, typer.Option(help="tuned, or manual where the validation found that better.")] = "tuned",
    pid: Annotated[int | None, typer.Option(help="Put the scheme on this running process.")] = None,
    machine: Annotated[
        str | None, typer.Option(help="Where; default: the study's machine, with --pid this one.")
    ] = None,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Start the workload under the tuned scheme, or put the scheme on a running process; 'damoos stop' undoes it.

    Example: damoos apply parsec3-raytrace-guest-1
    """
    from damoos import service

    _check_format(form)
    state = service.apply(study, arm, machine, pid, results, storage)
    if state["verdict"] not in (arm, "indistinguishable"):
        _say(f"note: the validation of '{study}' found '{state['verdict']}' better than '{arm}'")
    print(json.dumps(state) if form == "json" else f"in service: {service.describe(state)}")


@app.command()
def stop(results: Results = RESULTS, form: Format = "text") -> None:
    """Undo 'damoos apply' and put the machine back into its former state.

    Example: damoos stop
    """
    from damoos import service

    _check_format(form)
    state = service.stop(results)
    print(json.dumps(state) if form == "json" else f"stopped: {service.describe(state)}")


@app.command()
def studies(results: Results = RESULTS, storage: Storage = None, form: Format = "text") -> None:
    """List the studies, newest last.

    Example: damoos studies --format json
    """
    _check_format(form)
    rows = [_row(study) for study in _all_studies(results, storage)]
    if form == "json":
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['study']:<36} {row['machine']:<8} {row['trials']:>3}/{row['nr_samples']} trials  {row['state']}")


@app.command()
def show(
    study: StudyName,
    pid: Annotated[int | None, typer.Option(help="Process that --format damo is for.")] = None,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Annotated[str, typer.Option("--format", help="text, json, or damo (for 'damo start').")] = "text",
) -> None:
    """Show one study: its trials, the recommended scheme, the validation.

    Example: damoos show parsec3-raytrace-guest-1 --format damo --pid 4711 > s.json && damo start s.json
    """
    from damoos import api

    _check_format(form, "damo")
    found = api.load_study(study, results=results, storage=storage)
    if form == "damo":
        print(json.dumps(found.damo(pid), indent=2))
        return
    if form == "json":
        unfinished = {"study": study, "trials": json.loads(found.trials_df.to_json(orient="records"))}
        print(json.dumps(found.result or unfinished, indent=2))
        return
    table = found.trials_df
    metrics = ["runtime_s", "rss_avg_bytes"]
    columns = ["number", *found.param_names, "state", "feasible", "score", "score_low", "score_high", *metrics]
    shown = table.reindex(columns=columns).dropna(axis="columns", how="all")
    print(shown.to_string(index=False) if len(table) else "no trials yet")
    print(repr(found))


@app.command()
def workloads(form: Format = "text") -> None:
    """List the workloads.

    Example: damoos workloads
    """
    from damoos.workloads import catalog

    _check_format(form)
    rows = [{"name": name, "description": catalog.find(name)[1].description} for name in catalog.names()]
    _print_rows(rows, form)


@app.command()
def machines(form: Format = "text") -> None:
    """List the machines.

    Example: damoos machines
    """
    from damoos.machines import catalog

    _check_format(form)
    _print_rows([{"name": name, "description": catalog.machine(name).describe()} for name in catalog.names()], form)


@app.command()
def setup() -> None:
    """Build the guest's kernel and image now; 'damoos tune' does it by itself when they are missing.

    Example: damoos setup
    """
    from damoos.machines.guest.accel import choose
    from damoos.machines.guest.image import image

    built = image(_say)
    _say(f"guest image {built.path}, accelerator {choose('auto', built, _say).name}")


@bench_app.command("searchers")
def bench_searchers(
    curves: Annotated[Path | None, typer.Option(help="Folder of measured curves; without it curves are made.")] = None,
    searchers: Annotated[str, typer.Option(help="Comma-separated names, or all.")] = "all",
    trials: Annotated[str, typer.Option(help="Comma-separated numbers of trials.")] = "5,10,20",
    seeds: Annotated[int, typer.Option(help="Seeds for each curve; those without chance run once.")] = 100,
    generate: Annotated[int, typer.Option(help="How many curves to make, of the six shapes in turn.")] = 60,
    curve_seed: Annotated[int, typer.Option(help="Seed of the curves.")] = 0,
    noise: Annotated[str, typer.Option(help="Noise of made curves, LOW:HIGH in units of their range.")] = "0.005:0.05",
    cliffs: Annotated[float, typer.Option(help="Share of made curves whose small ages break the limits.")] = 0.6,
    plateaus: Annotated[float, typer.Option(help="Share of made curves that are flat at the top.")] = 0.3,
    form: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
) -> None:
    """Race searchers on curves whose best point is known: regret, broken limits, time per ask.

    Example: damoos bench searchers --searchers auto,daos,optuna:tpe --generate 1000
    """
    from damoos.bench.curves import Recipe, load
    from damoos.bench.curves import generate as make
    from damoos.bench.searchers import names, table

    _check_format(form, "table")
    if curves is None:
        low, _, high = noise.partition(":")
        made = make(
            _positive(generate, "--generate"), curve_seed, Recipe((_number(low), _number(high)), cliffs, plateaus)
        )
    else:
        made = load(curves)
    budgets = [int(_number(word)) for word in trials.split(",")]
    rows = table(made, names(searchers), budgets, seeds)
    if form == "json":
        print(json.dumps(rows, indent=2))
        return
    print(f"{len(made)} curves" + (f" of {curves}" if curves else f" made with seed {curve_seed}") + f", {seeds} seeds")
    print(f"{'searcher':<16} {'trials':>6} {'regret':>8} {'95 % interval':>18} {'limit broken':>13} {'ms/ask':>7}")
    for row in rows:
        interval = "[{:.4f}, {:.4f}]".format(*row["regret_ci95"])
        print(
            f"{row['searcher']:<16} {row['trials']:>6} {row['regret']:>8.4f} {interval:>18}"
            f" {row['infeasible_rate']:>12.1%} {row['ask_ms']:>7.2f}"
        )


@bench_app.command("aa")
def bench_aa(
    workload: Annotated[str | None, typer.Option(help="Workload name or TOML file; see 'damoos workloads'.")] = None,
    command: Annotated[str | None, typer.Option(help="Run this command line instead.")] = None,
    machine: Annotated[str, typer.Option(help="Machine name or TOML file; see 'damoos machines'.")] = "guest",
    rounds: Annotated[int, typer.Option(help="How often the workload runs without and under the scheme.")] = 12,
    repeats: Annotated[int, typer.Option(help="Rounds of validation of the studies that are drawn.")] = 3,
    scorer: Annotated[str, typer.Option("--score", help="Scorer, as for 'damoos tune'.")] = "daos",
    form: Format = "text",
) -> None:
    """Show how often a winner is declared where there is none, from real runs of one and the same scheme.

    Example: damoos bench aa --workload parsec3/raytrace --rounds 12
    """
    from damoos.bench import aa
    from damoos.scorers import scorer as made
    from damoos.study import StudyConfig

    _check_format(form)
    score = made(scorer)
    config = StudyConfig(workload=workload, command=command, machine=machine, nr_samples=2, repeats=repeats)
    config.check()
    aa.check_rounds(rounds, repeats)
    without, under, what = aa.run(config, rounds, _say)
    found = {"what": what, "runs": 2 * rounds, **aa.false_winners(without, under, score, repeats)}
    if form == "json":
        print(json.dumps(found, indent=2))
        return
    print(f"{what}: {found['runs']} runs, {found['studies']} studies drawn from them, {repeats} planned rounds each")
    for question, says in (("schemes", "two arms of one scheme"), ("baselines", "two baselines")):
        low, high = found[question]["ci95"]
        print(f"false winners among {says}: {found[question]['false_winners']:.2%} [{low:.2%}, {high:.2%}]  (bar: 5 %)")


@plugin_app.command("new")
def plugin_new(
    kind: Annotated[str, typer.Argument(help="scorer or searcher.")],
    name: Annotated[str, typer.Argument(help="Short name: lower-case letters, digits, underscores.")],
    into: Annotated[Path, typer.Option(help="Folder in which the package's folder is made.")] = Path(),
) -> None:
    """Write the package of a new scorer or searcher; it installs with pip and passes its contract suite.

    Example: damoos plugin new scorer my_sla && pip install -e damoos-my_sla
    """
    from damoos.scaffold import new_plugin

    print(new_plugin(kind, name, into))


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ConfigError(f"'{word}' is not a number") from None


def _positive(number: int, name: str) -> int:
    if number < 1:
        raise ConfigError(f"{name} must be 1 or more")
    return number


def _say(text: str) -> None:
    print(f"damoos: {text}", file=sys.stderr)


def _check_format(form: str, *more: str) -> None:
    known = ["text", "json", *more]
    if form not in known:
        raise ConfigError(f"unknown format '{form}'{nearest(form, known)}")


def _scheme_text(words: str) -> str:
    path = Path(words)
    try:
        return path.read_text() if path.is_file() else words
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _nr_trials(workload: str | None, trials: int | None, time_limit: str | None, unit_work: str | None) -> int:
    """``nr_samples``: given, or time limit / unit work time (DAOS paper, section 3.5)."""
    from damoos.units import parse_us
    from damoos.workloads import catalog

    if time_limit is None:
        return 10 if trials is None else trials
    if trials is not None:
        raise ConfigError("give either --trials or --time-limit")
    if unit_work is None:
        if workload is None:
            raise ConfigError("--time-limit with --command needs --unit-work")
        file = catalog.find(workload)[1]
        if file.model:
            short = parse_us(file.tune.unit_work) // file.model.time_scale / 1e6
            raise ConfigError(
                f"--time-limit: '{workload}' runs as itself or as a model; say which with"
                f" --unit-work {file.tune.unit_work} (real) or {short:g}s (model)"
            )
        unit_work = file.tune.unit_work
    work_us = parse_us(unit_work)
    if work_us == 0:
        raise ConfigError("--unit-work must be more than 0")
    return parse_us(time_limit) // work_us


class _Watching:
    """A watcher on standard error that gives the terminal back in every way out."""

    def __enter__(self) -> Any:
        from damoos.report.live import watcher

        self._watcher = watcher()
        return self._watcher

    def __exit__(self, *_: object) -> None:
        if hasattr(self._watcher, "stop"):
            self._watcher.stop()


def _print_result(found: TunedStudy, form: str, results: Path) -> None:
    if form == "json":
        print(json.dumps(found.result, indent=2))
    else:
        print(repr(found))
        print(f"figure: {results / found.name / 'figure.png'}")
    if found.best is None:
        raise NothingFeasible(f"study '{found.name}': none of its trials kept the limits of the score")


def _all_studies(results: Path, storage: str | None) -> list[Study]:
    from damoos.store.studies import Store
    from damoos.study import Study

    return [Study(record) for record in Store(results, storage).all()][::-1]


def _row(study: Study) -> dict[str, Any]:
    result = study.record.result
    return {
        "study": study.name,
        "workload": study.config.workload or study.config.command,
        "machine": study.config.machine,
        "nr_samples": study.config.nr_samples,
        "trials": sum(run.kind == "trial" for run in study.runs()),
        "state": "unfinished" if result is None else f"done: {result['verdict']}",
        "recommended": (result or {}).get("recommended"),
        "created": study.record.get("created"),
    }


def _print_rows(rows: list[dict[str, str]], form: str) -> None:
    if form == "json":
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        print(f"{row['name']:<24} {row['description']}")


def _on_sigterm(signum: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def main() -> NoReturn:
    """Run a command; errors become one line and an exit code."""
    signal.signal(signal.SIGTERM, _on_sigterm)
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except DamoosError as error:
        if "--debug" in sys.argv:
            raise
        _end(str(error).replace("\n", " "), error.exit_code)
    except typer.Abort:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except OSError as error:  # a full or read-only disk, wherever it was met
        if "--debug" in sys.argv:
            raise
        _end(f"{error.filename or 'this machine'}: {error.strerror or error}", 3)
    except Exception as error:
        # Typer's own errors of use (unknown command, option or value) carry their message and exit code.
        if not hasattr(error, "format_message"):
            raise
        _end(error.format_message(), 2)
    if code == INTERRUPTED:  # Typer, too, turns a KeyboardInterrupt into this code
        _end("interrupted; the same command again, or 'damoos resume STUDY', goes on", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _end(message: str, code: int) -> NoReturn:
    print(f"damoos: {message}", file=sys.stderr)
    sys.exit(code)
