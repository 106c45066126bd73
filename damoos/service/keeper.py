"""Putting a tuned scheme into service: a keeper process that holds it in force until it is told to stop.

The keeper leases the machine as a study does, so the agent's guarantees hold: when the keeper is gone, for whatever
reason, the machine returns to its former state.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from damoos.damon.damo_json import context_from_json
from damoos.dispatch.lease import Lease
from damoos.errors import (
    ConfigError,
    DamoosError,
    MachineBusy,
    MachineError,
    MachineTransientError,
    NothingFeasible,
    from_wire,
    nearest,
    to_wire,
)
from damoos.machines import catalog as machines
from damoos.policies import catalog
from damoos.policies.base import DamosPolicy, Policy, limited
from damoos.statistics.limits import Standing
from damoos.store.studies import Store
from damoos.study.study import Study, tuning_study
from damoos.units import format_us

POLL_S = 2.0
STOP_S = 60.0
# A scheme that is lost more often than this in an hour is not put back again.
RENEWALS_AN_HOUR = 3
# How long a machine that does not answer, or is used by somebody else, is tried again, and how often.
OUT_OF_REACH_S = 600.0
RETRY_S = 10.0
# Validated schemes and where a result has them.
ARMS = {"tuned": "recommended", "manual": "manual"}


def state_file(results: Path) -> Path:
    """Where the keeper says what it holds. One keeper per results folder."""
    return results / "applied.json"


def log_file(results: Path) -> Path:
    """What the keeper said beyond its state, should it fail."""
    return results / "applied.log"


def read_state(results: Path) -> dict[str, Any] | None:
    """What is in service, or None; with ``failed``, why it is no longer. A keeper that was killed is not believed."""
    try:
        state: dict[str, Any] = json.loads(state_file(results).read_text())
    except (OSError, ValueError):
        return None
    return state if "failed" in state or _is_keeper(state["keeper_pid"]) else None


def _is_keeper(pid: int) -> bool:
    try:
        return b"damoos.service.keeper" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def specification(
    name: str,
    arm: str,
    machine: str | None,
    pid: int | None,
    results: Path,
    storage: str | None,
    pid_file: str | None = None,
) -> dict[str, Any]:
    """What a keeper is told, for one of a study's schemes.

    Parameters
    ----------
    name : str
        The study.
    arm : {"tuned", "manual"}
        Which of the validated schemes.
    machine : str or None
        None for the study's own; with a pid, for this machine.
    pid : int or None
        A running process; None starts the workload, or takes the process that the study was about.
    pid_file : str or None
        A file on the machine that holds the process id, in the place of ``pid``.

    Raises
    ------
    ConfigError : nothing to apply
    NothingFeasible : the validation found that the scheme breaks the scorer's limits
    """
    study = tuning_study(Store(results, storage).load(name))
    result = study.record.result
    if arm not in ARMS:
        raise ConfigError(f"unknown arm '{arm}'{nearest(arm, ARMS)}")
    if not result or not result.get(ARMS[arm]):
        raise ConfigError(f"study '{name}' has no {arm} scheme to apply")
    validated = (result["validation"] or {}).get(arm)
    if not validated or not validated["feasible"]:
        is_unclear = validated and validated["limits"] == Standing.NOT_SHOWN
        fate = "was not shown to keep" if is_unclear else "broke"
        raise NothingFeasible(
            f"study '{name}': in the validation the {arm} scheme {fate} the limits of the score, so it is not put into"
            " service; 'damoos show' has the other arms"
        )
    if pid and pid_file:
        raise ConfigError("give --pid or --pid-file, not both")
    where = machine or ("local" if pid or pid_file else study.config.machine)
    machines.machine(where)
    return {
        "study": name,
        "arm": arm,
        "machine": where,
        "pid": pid or (None if pid_file else study.config.pid),
        "pid_file": pid_file,
        "results": str(results.resolve()),
        "storage": storage,
    }


def apply(spec: dict[str, Any]) -> dict[str, Any]:
    """Start a keeper and wait until its scheme is in force.

    Parameters
    ----------
    spec : dict
        Of `specification`.

    Raises
    ------
    ConfigError : something is in service already
    DamoosError : whatever kept the keeper from starting
    """
    results = Path(spec["results"])
    held = read_state(results)
    if held and "failed" not in held:
        raise ConfigError(f"study '{held['study']}' is in service already; end that with 'damoos stop'")
    with open(log_file(results), "w") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "damoos.service.keeper", json.dumps(spec)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            text=True,
        )
    assert keeper.stdout
    line = keeper.stdout.readline()
    if not line:
        raise MachineError(f"the keeper process died; {log_file(results)} shows why")
    answer: dict[str, Any] = json.loads(line)
    if "error" in answer:
        raise from_wire(answer["error"])
    return answer


def unit(spec: dict[str, Any]) -> str:
    """A systemd unit that keeps a scheme in service, also after a reboot.

    Parameters
    ----------
    spec : dict
        Of `specification`, without a pid: process ids do not outlive a reboot.

    Raises
    ------
    ConfigError : it has one
    """
    if spec["pid"]:
        raise ConfigError(
            f"process {spec['pid']} does not outlive a reboot; give --pid-file, the file of the server's own"
        )
    words = json.dumps(spec)
    for sign, escaped in (("\\", r"\\"), ("'", r"\'"), ("%", "%%"), ("$", "$$")):
        words = words.replace(sign, escaped)
    return f"""[Unit]
Description=damoos keeps the {spec["arm"]} scheme of study {spec["study"]} in service
After=network-online.target
Wants=network-online.target

[Service]
ExecStart={sys.executable} -m damoos.service.keeper '{words}'
Restart=always
RestartSec=10

[Install]
WantedBy=multi-user.target
"""


def stop(results: Path) -> dict[str, Any]:
    """End the keeper and wait until it has put everything back."""
    state = read_state(results)
    if state is None:
        raise ConfigError("nothing is in service here; 'damoos apply STUDY' puts a scheme into service")
    if "failed" in state:
        state_file(results).unlink(missing_ok=True)
        return state
    pid = state["keeper_pid"]
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while _is_keeper(pid):
        if time.monotonic() > deadline:
            raise MachineError(f"keeper process {pid} does not end; {log_file(results)} shows why")
        time.sleep(0.05)
    state_file(results).unlink(missing_ok=True)
    return state


class _Stopped(Exception):
    """SIGTERM or SIGINT has arrived."""


def _keep(spec: dict[str, Any]) -> None:
    results = Path(spec["results"])
    study = tuning_study(Store(results, spec["storage"]).load(spec["study"]))
    chosen = (study.record.result or {})[ARMS[spec["arm"]]]
    policy = _policy(study, chosen)
    own = spec["machine"] == study.config.machine
    where = replace(study.config, machine=spec["machine"], kernel=study.config.kernel if own else None)
    with Lease(where.machine_for()) as lease:
        call: dict[str, Any] = policy.spec()
        if spec["pid_file"]:
            call["pid"] = lease.call("pid_in", path=spec["pid_file"])
        elif spec["pid"]:
            call["pid"] = spec["pid"]
        else:
            workload = study.config.workload_on(lease.place)
            call |= workload.spec(lease.copy, lease.facts.get("vcpus", 1), lease.facts.get("arch", ""))
        begun = lease.call("apply", **call)
        if "pid" in call:
            call["started"] = begun["started"]
        state = {
            "study": study.name,
            "machine": spec["machine"],
            "pid": begun["pid"],
            "scheme": chosen["scheme"],
            "arm": spec["arm"],
            "verdict": (study.record.result or {})["verdict"],
            "keeper_pid": os.getpid(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        _publish(state_file(results), state)
        print(json.dumps(state), flush=True)
        try:
            watch(lease.call, call, lambda status: _publish(state_file(results), {**state, **status}))
        except DamoosError as error:
            _publish(state_file(results), {**state, "failed": str(error)})
            print(
                f"damoos: the scheme of study '{study.name}' is no longer in force: {error}",
                file=sys.stderr,
                flush=True,
            )
            raise
        except BaseException:
            lease.call("stop")
            state_file(results).unlink(missing_ok=True)
            raise
        lease.call("stop")
        state_file(results).unlink(missing_ok=True)


def _policy(study: Study, chosen: Mapping[str, Any]) -> Policy:
    """What a validated arm stands for; a share of the peak is one of the study's peak."""
    policy = DamosPolicy(context_from_json(chosen["damo"])) if chosen["damo"] else catalog.parse(chosen["scheme"])
    peak_bytes = study.record.get("peak_bytes") or 0.0
    return limited(policy, {}, peak_bytes, study.config.swap_write_bytes_per_s)


def watch(
    call: Callable[..., Any],
    applied: dict[str, Any],
    publish: Callable[[dict[str, Any]], None],
    pause: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> None:
    """Keep a scheme in force until its process ends.

    A kdamond that has ended is started again. So is one that went with a lost connection, if the process was not
    damoos's own, which ends with the connection. A machine that is out of reach is tried again for `OUT_OF_REACH_S`.

    Parameters
    ----------
    call : callable
        Calls the machine's agent, a new one after a lost connection.
    applied : dict
        The arguments of the call ``apply`` that has been made.
    publish : callable
        Given each status.

    Raises
    ------
    MachineError : the scheme is no longer in force, or nobody knows, and it cannot be put back
    """
    renewed: list[float] = []
    reached = now()
    while True:
        try:
            status = call("status")
            if status["in_service"] and not status["alive"]:
                return
            publish(status)
            if not (status["in_service"] and status["in_force"]):
                renewed = [at_s for at_s in renewed if now() - at_s < 3600]
                if len(renewed) == RENEWALS_AN_HOUR:
                    raise MachineError(f"it was lost {len(renewed) + 1} times within an hour")
                _put_back(call, applied, status["in_service"])
                renewed.append(now())
        except (MachineTransientError, MachineBusy) as error:
            if now() - reached > OUT_OF_REACH_S:
                raise
            publish({"out_of_reach": str(error)})
            pause(RETRY_S)
        else:
            reached = now()
            pause(POLL_S)


def _put_back(call: Callable[..., Any], applied: dict[str, Any], in_service: bool) -> None:
    """Start the kdamond again; by another agent if the one that had it is gone.

    Raises
    ------
    MachineError : it cannot be
    """
    if in_service:
        call("renew")  # if the agent dies of it, its successor has nothing to renew, which the next status tells
    elif "pid" in applied:
        call("apply", **applied)
    else:
        raise MachineError("the connection to its machine was lost, and the program that damoos ran ended with it")


def _publish(path: Path, state: dict[str, Any]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(state))
    draft.replace(path)


def describe(state: dict[str, Any]) -> str:
    """One line on what is in service."""
    if "failed" in state:
        place = f"process {state['pid']} of machine {state['machine']}"
        return f"{state['scheme']}  is no longer on {place}: {state['failed']}"
    for_s = state.get("for_s")
    age = f" for {format_us(int(for_s) * 1_000_000)}" if for_s else ""
    reach = f"; out of reach: {state['out_of_reach']}" if "out_of_reach" in state else ""
    place = f"process {state['pid']} of machine {state['machine']}"
    return f"{state['scheme']}  on {place}{age} (study {state['study']}){reach}"


def main() -> int:
    """The keeper process: ``python -m damoos.service.keeper SPEC``."""

    def on_signal(signum: int, frame: FrameType | None) -> None:
        raise _Stopped

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    try:
        _keep(json.loads(sys.argv[1]))
    except _Stopped:
        return 0
    except DamoosError as error:
        with contextlib.suppress(BrokenPipeError):  # whoever started it has long gone
            print(json.dumps({"error": to_wire(error)}), flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
