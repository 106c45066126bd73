"""Putting a tuned scheme into service: a keeper process that holds it in force until it is told to stop.

The keeper leases the machine as a study does, so the agent's guarantees hold: when the keeper is gone, for whatever
reason, the machine returns to its former state.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from damoos.dispatch.lease import Lease
from damoos.errors import ConfigError, DamoosError, MachineError, NothingFeasible, from_wire, nearest, to_wire
from damoos.machines import catalog as machines
from damoos.store.studies import Store
from damoos.study.study import tuning_study
from damoos.units import format_us

POLL_S = 2.0
STOP_S = 60.0
# Validated schemes and where a result has them.
ARMS = {"tuned": "recommended", "manual": "manual"}


def state_file(results: Path) -> Path:
    """Where the keeper says what it holds. One keeper per results folder."""
    return results / "applied.json"


def log_file(results: Path) -> Path:
    """What the keeper said beyond its state, should it fail."""
    return results / "applied.log"


def read_state(results: Path) -> dict[str, Any] | None:
    """What is in service, or None. The file of a keeper that died is not believed."""
    try:
        state: dict[str, Any] = json.loads(state_file(results).read_text())
    except (OSError, ValueError):
        return None
    return state if _is_keeper(state["keeper_pid"]) else None


def _is_keeper(pid: int) -> bool:
    try:
        return b"damoos.service.keeper" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def apply(
    name: str, arm: str, machine: str | None, pid: int | None, results: Path, storage: str | None
) -> dict[str, Any]:
    """Start a keeper for one of a study's schemes and wait until the scheme is in force.

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

    Raises
    ------
    ConfigError : nothing to apply, or something is in service already
    NothingFeasible : the validation found that the scheme breaks the scorer's limits
    DamoosError : whatever kept the keeper from starting
    """
    study = tuning_study(Store(results, storage).load(name))
    result = study.record.result
    if arm not in ARMS:
        raise ConfigError(f"unknown arm '{arm}'{nearest(arm, ARMS)}")
    if not result or not result.get(ARMS[arm]):
        raise ConfigError(f"study '{name}' has no {arm} scheme to apply")
    validated = (result["validation"] or {}).get(arm)
    if not validated or not validated["feasible"]:
        raise NothingFeasible(
            f"study '{name}': in the validation the {arm} scheme broke the limits of the score, so it is not put into"
            " service; 'damoos show' has the other arms"
        )
    held = read_state(results)
    if held:
        raise ConfigError(f"study '{held['study']}' is in service already; end that with 'damoos stop'")
    where = machine or ("local" if pid else study.config.machine)
    pid = pid or study.config.pid
    machines.machine(where)
    spec = {"study": name, "arm": arm, "machine": where, "pid": pid, "results": str(results), "storage": storage}
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


def stop(results: Path) -> dict[str, Any]:
    """End the keeper and wait until it has put everything back."""
    state = read_state(results)
    if state is None:
        raise ConfigError("nothing is in service here; 'damoos apply STUDY' puts a scheme into service")
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
    document = chosen["damo"]
    own = spec["machine"] == study.config.machine
    where = replace(study.config, machine=spec["machine"], kernel=study.config.kernel if own else None)
    with Lease(where.machine_for()) as lease:
        call: dict[str, Any] = {"context": document}
        if spec["pid"]:
            call["pid"] = spec["pid"]
        else:
            workload = study.config.workload_on(lease.which)
            call |= workload.spec(lease.copy, lease.facts.get("vcpus", 1))
        begun = lease.call("apply", **call)
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
            while True:
                status = lease.call("status")
                if not status["alive"]:
                    break
                _publish(state_file(results), {**state, **status})
                time.sleep(POLL_S)
        finally:
            lease.call("stop")
            state_file(results).unlink(missing_ok=True)


def _publish(path: Path, state: dict[str, Any]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(state))
    draft.replace(path)


def describe(state: dict[str, Any]) -> str:
    """One line on what is in service."""
    for_s = state.get("for_s")
    age = f" for {format_us(int(for_s) * 1_000_000)}" if for_s else ""
    return f"{state['scheme']}  on process {state['pid']} of machine {state['machine']}{age} (study {state['study']})"


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
        print(json.dumps({"error": to_wire(error)}), flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
