"""The commands that put a policy into service, tell how it is, and take it off."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from damoos.cli import complete, options, rollouts
from damoos.cli.common import RESULTS, Format, Results, Storage, StudyName, check_format, confirm, say, time_us
from damoos.cli.sweeps import InsecureCluster, ray_cluster, show_status, told
from damoos.common.loopback import HOST
from damoos.common.terminal import printable
from damoos.errors import ConfigError, DamoosError, MachineError, nearest
from damoos.words import GUARD, OUTPUT, WHAT, WHERE

app = typer.Typer()
_T = TypeVar("_T")


@app.command()
def apply(
    study: StudyName,
    arm: Annotated[
        str,
        typer.Option(
            help="tuned, manual where the validation found that better, or none: the guard only watches.",
            autocompletion=complete.choices("tuned", "manual", "none"),
            rich_help_panel=WHAT,
        ),
    ] = "tuned",
    on: Annotated[
        str | None,
        typer.Option(
            help="unit:NAME.service, cgroup:/PATH, pid:NUMBER, pid-file:/PATH, match:exe=NAME or machine"
            " (default: start the study's workload).",
            autocompletion=complete.choices("unit:", "cgroup:/", "pid:", "pid-file:/", "match:exe=", "machine"),
            rich_help_panel=WHAT,
        ),
    ] = None,
    name: options.NameInService = None,
    machine: Annotated[
        str | None,
        typer.Option(
            help="Machine name or TOML file (default: the study's machine; with --on local, after a question).",
            autocompletion=complete.machines,
            rich_help_panel=WHERE,
        ),
    ] = None,
    guards: options.Guards = None,
    window: options.Window = "10s",
    metrics: options.GuardMetrics = None,
    adapt: Annotated[
        bool,
        typer.Option("--adapt", help="Move the scheme's min_age when the workload changes.", rich_help_panel=GUARD),
    ] = False,
    on_exit: Annotated[
        str,
        typer.Option(
            help="What becomes of it if its keeper ends: undo, or keep, which leaves it in force without its guard.",
            autocompletion=complete.choices("undo", "keep"),
            rich_help_panel=GUARD,
        ),
    ] = "undo",
    unit: Annotated[
        bool,
        typer.Option(
            "--unit",
            help="Print a systemd unit that puts it into service when it starts, also after a boot.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    results: Results = RESULTS,
    storage: Storage = None,
    form: Format = "text",
) -> None:
    """Put a study's policy on processes of a machine and keep it there under a guard, until 'damoos stop'.

    Example: damoos apply redis-idle-guest-1 --on unit:redis.service --guard 'memory_pressure<=1%'
    """
    from damoos.service import keeper, listing, systemd
    from damoos.service.in_force import naming
    from damoos.service.journal import Journal
    from damoos.service.specification import ARMS, specification
    from damoos.statistics.verdict import INDISTINGUISHABLE, NOT_COMPARABLE

    check_format(form)
    spec = specification(
        study, results, storage, arm=arm, machine=machine, on=on, label=name, guards=guards or (),
        window_s=time_us(window, "--window") / 1e6, metrics=metrics or (), adapt=adapt, on_exit=on_exit,
    )  # fmt: skip
    if machine is None:
        _ask_about_this_host(spec)
    if unit:
        journal = Journal.of(results, spec["machine"])
        with naming(results, spec["name"], spec["machine"]):
            text = systemd.unit(journal, {**journal.wanted(), spec["name"]: spec})
            with journal.changing():
                journal.want(spec["name"], spec)
        print(text, end="")
        return
    state = keeper.apply(spec)
    if arm in ARMS and state["verdict"] not in (arm, INDISTINGUISHABLE, NOT_COMPARABLE):
        say(f"note: the validation of '{study}' found '{state['verdict']}' better than '{arm}'")
    if "note" in state:
        say(f"note: {state['note']}")
    if form == "json":
        print(json.dumps({"name": spec["name"], **state}))
        return
    print(f"in service: {listing.describe(spec['name'], state)}")
    print(f"guarded by: {', '.join(spec['guards'])}")


def _ask_about_this_host(spec: dict[str, Any]) -> None:
    """Put no policy on this host that its user did not mean for it."""
    from damoos.service.specification import would_be_here

    if what := would_be_here(spec):
        name_it = f"give --machine {spec['machine']} if it is to, or the name of another machine"
        confirm(f"{what}; go on?", f"{what}; {name_it}", f"nothing is put into service: {what}; {name_it}")


@app.command()
def metrics(
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 for any free port.")] = 9753,
    grafana: Annotated[
        bool, typer.Option("--grafana", help="Print a dashboard for Grafana instead, as JSON to import.")
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Answer Prometheus on this computer with the numbers of all that is in service, until Ctrl-C.

    Example: damoos metrics --port 9753
    """
    from damoos.service import metrics as of_service

    if grafana:
        print(of_service.GRAFANA.read_text(), end="")
        return
    server = of_service.serve(results, port)
    say(f"metrics: http://{HOST}:{server.server_address[1]}/metrics")
    signal.pause()


@app.command()
def stop(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Its name in service, or a rollout; not needed for the only one in service.",
            autocompletion=complete.stoppable,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that is in service.")] = False,
    ray: Annotated[
        str | None,
        typer.Option("--ray", help="Ray cluster of a rollout: auto, or HOST:PORT.", rich_help_panel=WHERE),
    ] = None,
    insecure_cluster: InsecureCluster = False,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Undo 'damoos apply' or 'damoos rollout', and restore the former state of its machines.

    Example: damoos stop redis
    """
    from damoos.rollouts.rollout import load as load_rollout
    from damoos.rollouts.rollout import names as rollout_names
    from damoos.service import keeper, listing

    check_format(form)
    if every and name:
        raise ConfigError("give a name or --all, not both")
    if name in rollout_names(results):
        rolled = load_rollout(results, str(name))
        if cluster := ray_cluster(ray, insecure_cluster):
            rolled.move(cluster)
        rollouts.undo(rolled, form)
        return
    if ray or insecure_cluster:
        raise ConfigError("--ray and --insecure-cluster are for a rollout; give its name")
    if every and (names := list(listing.listed(results))):
        _stop_all(results, names, form)
        return
    its, state = keeper.stop(results, name)
    _check_stays_off(results, its)
    print(json.dumps({"name": its, **state}) if form == "json" else _ended(its, state))


def _stop_all(results: Path, names: Sequence[str], form: str) -> None:
    """Stop each, also where others cannot be stopped: these are named, and the worst of their exit codes is this one's.

    Raises
    ------
    typer.Exit : some could not be stopped, or there may be some in a folder that cannot be used
    """
    from damoos.common.unpack import MALFORMED, in_short
    from damoos.service import keeper, listing
    from damoos.service.journal import Journal

    states, codes = [], []
    for name in names:
        try:
            its, state = keeper.stop(results, name)
            _check_stays_off(results, its)
        except DamoosError as error:
            if isinstance(error, ConfigError) and name not in listing.listed(results):  # off since then
                continue
            codes.append(error.exit_code)
            say(printable(error))
        except OSError as error:
            codes.append(MachineError.exit_code)
            say(printable(f"'{name}' is not stopped: {error.filename or results}: {error.strerror or error}"))
        except MALFORMED as error:
            codes.append(MachineError.exit_code)
            say(printable(f"'{name}' is not stopped: {in_short(error)}"))
        else:
            states.append({"name": its, **state})
            if form != "json" and (line := _readable(its, partial(_ended, its, state))):
                print(line, flush=True)
    if form == "json":
        print(json.dumps(states))
    if Journal.left_out(results):  # they have been named
        codes.append(MachineError.exit_code)
    if codes:
        raise typer.Exit(max(codes))


def _check_stays_off(results: Path, name: str) -> None:
    """Refuse to call stopped what comes back.

    Raises
    ------
    MachineError : it is of a rollout that somebody drives
    """
    from damoos.rollouts import conduct

    if rollout := conduct.wanted_again(results).get(name):
        raise MachineError(
            f"'{name}' is off now, and '{rollout}', which is being driven, may put it on again; run 'damoos stop"
            f" {rollout}'"
        )


def _ended(name: str, state: dict[str, Any]) -> str:
    """One line on something that is out of service now."""
    from damoos.service import listing

    if state.keys() & {"lost", "stopping"} and "failed" not in state:  # these tell of the doubts there were
        return printable(f"stopped: {name}: {state['scheme']} is off {state['on']} of machine {state['machine']}")
    line = listing.describe(name, state)
    return line if "failed" in state else f"stopped: {line}"


@app.command()
def status(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A sweep, a rollout, or something in service"
            " (default: all that is in service, the newest rollout, and the newest sweep).",
            autocompletion=complete.watchable,
        ),
    ] = None,
    results: Results = RESULTS,
    form: Format = "text",
) -> None:
    """Show what is in service, and the progress of a rollout or a sweep that another process drives.

    Example: damoos status
    """
    from damoos.rollouts.rollout import load as load_rollout
    from damoos.rollouts.rollout import names as rollout_names
    from damoos.service import listing
    from damoos.service.journal import Journal
    from damoos.sweeps import sweep as sweeps

    check_format(form)
    served, left_out = listing.listed(results), Journal.left_out(results)
    swept, rolled = sweeps.names(results), rollout_names(results)
    if name is not None and name in served:
        print(json.dumps(served[name]) if form == "json" else listing.describe(name, served[name]))
        return
    if name in rolled:
        rollouts.show(load_rollout(results, str(name)), form)
        return
    if name is not None:
        if name not in swept:
            if left_out:
                raise MachineError(f"'{name}' may be in service where damoos does not look: {left_out[0]}")
            known = [*served, *rolled, *swept]
            raise ConfigError(f"no sweep, no rollout and nothing in service is called '{name}'{nearest(name, known)}")
        show_status(name, results, form)
        return
    if form == "json":
        sweep = _readable(swept[-1], lambda: told(sweeps.load(results, swept[-1]))) if swept else None
        rollout = _readable(rolled[-1], lambda: rollouts.told(load_rollout(results, rolled[-1]))) if rolled else None
        print(json.dumps({"services": served, "rollout": rollout, "sweep": sweep}))
    else:
        for its, state in served.items():
            if line := _readable(its, partial(listing.describe, its, state)):
                print(line)
        if rolled:
            _readable(rolled[-1], lambda: rollouts.show(load_rollout(results, rolled[-1]), form))
        if swept:
            _readable(swept[-1], lambda: show_status(swept[-1], results, form))
        elif not served and not rolled and not left_out:
            print(f"nothing is in service here, and there is no sweep in {results}")
    if left_out:  # they have been named
        raise typer.Exit(MachineError.exit_code)


def _readable(name: str, show: Callable[[], _T]) -> _T | None:
    """What there is to show of a service, sweep or rollout; a line on what is wrong with it, where it cannot be read.

    Its files may be anybody's, and must not hide what else there is to show.
    """
    from damoos.common.unpack import MALFORMED, in_short

    try:
        return show()
    except BrokenPipeError:
        raise
    except DamoosError as error:
        say(printable(error))
    except (OSError, *MALFORMED) as error:
        say(printable(f"'{name}' cannot be read: {in_short(error)}"))
    return None
