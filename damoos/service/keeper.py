"""The keeper of a machine: a process that has in force there what the machine's journal says, and nothing else.

It leases the machine as a study does, so the agent's guarantees hold: when the keeper is gone, for whatever reason, the
machine returns to its former state. The journal stays, and the next keeper goes on with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from damoos.common import interpreter
from damoos.common.terminal import printable
from damoos.common.unpack import MALFORMED, in_short
from damoos.dispatch.lease import Lease
from damoos.errors import (
    MOST_CHARS,
    ConfigError,
    DamoosError,
    MachineBusy,
    MachineError,
    MachineTransientError,
    from_wire,
    nearest,
    to_wire,
)
from damoos.machines.base import Machine
from damoos.ownership import objection_to_use
from damoos.service import metrics
from damoos.service.in_force import InForce, host_of, is_of_another, naming
from damoos.service.journal import KEEP, Journal
from damoos.service.kept import Kept, adaptation_of, guard_of
from damoos.service.listing import described, listed, of_machine
from damoos.service.patient import PatientJournal
from damoos.service.systemd import STAY
from damoos.store.studies import slug
from damoos.study.run_config import RunConfig

_MODULE = "damoos.service.keeper"
POLL_S = 2.0
STOP_S = 60.0
# Be nobody's child: some parents end all of theirs when they end, as workers of Ray do.
_DETACHED = "--detached"
# How often a machine is tried again that does not answer, or that somebody else uses.
RETRY_S = 10.0


def apply(spec: dict[str, Any]) -> dict[str, Any]:
    """Have something in service, and wait until it is; a keeper is started if the machine has none.

    Parameters
    ----------
    spec : dict
        Of `damoos.service.specification.specification`.

    Returns
    -------
    dict
        Its first state.

    Raises
    ------
    ConfigError : the name is taken
    DamoosError : whatever kept it from getting into force
    """
    journal, name = Journal.of(Path(spec["results"]), spec["machine"]), spec["name"]
    with naming(Path(spec["results"]), name), journal.changing():
        journal.tell(name, None)
        journal.want(name, spec)
        try:
            wake(journal)
        except BaseException:
            journal.forget(name)
            raise
    try:
        return _first_state(journal, name)
    except BaseException:  # an interrupt, too: what nobody has seen in force is not to come later
        with journal.changing():
            journal.stop(name)
        wake(journal, start=False)
        raise


def _first_state(journal: Journal, name: str) -> dict[str, Any]:
    """Wait until something is in force.

    Raises
    ------
    DamoosError : why it is not; nothing of it is left on the machine
    """
    while True:
        # In this order: a keeper that refuses it says why before it forgets it, and one that ends does that last.
        lives, spec, state = journal.has_keeper, journal.wanted().get(name), journal.states().get(name)
        if name in (unread := journal.unread()):
            raise MachineError(f"{unread[name]}; '{name}' is taken off once it can be read")
        if state and "error" in state:
            journal.tell(name, None)
            raise from_wire(state["error"])
        if state and "failed" in state:
            raise MachineError(f"'{name}' was put into force and taken off at once: {state['failed']}")
        if not spec and not state:
            last = journal.last_words(name)
            raise MachineError(f"'{name}' was taken off while it was put into force{f': {last}' if last else ''}")
        if not lives:
            if spec:
                _take_back(journal, name)
                journal.forget(name)
            journal.tell(name, None)
            raise MachineError(
                f"the keeper process ended before '{name}' was in force, so it is not; {journal.log_file} shows why"
            )
        if spec and state and not state.get("beginning") and "unconfirmed" not in state:
            return of_machine(journal).get(name, state)
        time.sleep(0.05)


def wake(journal: Journal, start: bool = True) -> None:
    """Have a machine's keeper look at its journal now; one is started if there is none, and it is to be.

    To be called while nobody else changes the journal.
    """
    if start and not journal.has_keeper:
        _start(journal)
    journal.wake_keeper()


def _start(journal: Journal) -> None:
    """Start a keeper, and wait until it has the machine's journal.

    Raises
    ------
    MachineError : it has died
    """
    log = journal.new_log()
    try:
        subprocess.run(
            interpreter.module(_MODULE, str(journal.folder), _DETACHED),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            check=False,
        )  # fmt: skip - until nobody can write into the pipe: the keeper has closed it, or has died
        is_silent = not os.fstat(log).st_size
    finally:
        os.close(log)
    if not journal.has_keeper:
        empty = " (if that is empty, its disk may be full)" if is_silent else ""
        raise MachineError(f"the keeper process died; {journal.log_file} shows why{empty}")


def stop(results: Path, name: str | None = None) -> tuple[str, dict[str, Any]]:
    """Take something out of service, and wait until everything is put back.

    Parameters
    ----------
    name : str or None
        None for the only one.

    Returns
    -------
    tuple of str, dict
        Its name, and its last state.

    Raises
    ------
    ConfigError : there is no such, or several
    MachineError : it may be in a folder that cannot be used; or it may still be in force, and the next `stop` goes on
        with it
    """
    services = listed(results)
    if (name is None or name not in services) and (left_out := Journal.left_out(results)):
        what = "something" if name is None else f"'{name}'"
        raise MachineError(f"{what} may be in service where damoos does not look: {left_out[0]}")
    if not services:
        raise ConfigError("nothing is in service here; 'damoos apply STUDY' puts a policy into service")
    if name is None and len(services) > 1:
        raise ConfigError(f"{len(services)} are in service; name one of {', '.join(services)}, or give --all")
    name = next(iter(services)) if name is None else name
    if name not in services:
        raise ConfigError(f"'{name}' is not in service{nearest(name, services)}")
    for journal in Journal.all(results):
        if name in of_machine(journal):
            _stop(journal, name)
    return name, {key: value for key, value in services[name].items() if key != "unconfirmed"}


def _stop(journal: Journal, name: str) -> None:
    """Take something off one machine.

    Raises
    ------
    MachineError, ConfigError : it may still be in force
    """
    with journal.changing():  # a keeper that begins with it has said so before, or does not begin
        journal.stop(name)
    journal.wake_keeper()
    _wait_for_keeper(journal, name)
    _take_back(journal, name)
    journal.stopped(name)
    journal.tell(name, None)


def _wait_for_keeper(journal: Journal, name: str) -> None:
    """Wait until the keeper has taken something off, or there is no keeper.

    Raises
    ------
    MachineError : it does not
    """
    deadline = time.monotonic() + STOP_S
    while (alive := journal.keeper).lives and name in (known := InForce(journal)).to_be_off() | known.unread.keys():
        if time.monotonic() > deadline:
            raise MachineError(
                f"{alive.name} does not take '{name}' off, so it may still be in force; {journal.log_file}"
                f" shows why, and 'damoos stop {name}' waits again"
            )
        time.sleep(0.05)


def _take_back(journal: Journal, name: str) -> None:
    """Take back what a keeper that is gone may have left in force: the next agent on its machine does that.

    It is tried once, since somebody waits for it.

    Raises
    ------
    ConfigError : the machine is not believed, see `_its_run`, or another user can have written its file
    MachineError : the machine cannot be had, or could not undo it
    """
    known = InForce(journal)
    if not known.may_be(name):
        return
    spec = known.wanted.get(name) or known.specification(name)
    if name in known.unread and not known.states.get(name, {}).get("machine"):
        raise MachineError(f"'{name}' may still be in force: {known.unread[name]}; run 'damoos stop {name}' again")
    try:
        machine, file = _its_machine(journal, name, spec), spec["machine"]
    except ConfigError as error:
        if spec.get("wanted_s") or known.states[name].get("machine"):
            raise
        raise MachineError(
            f"'{name}' may still be in force on a machine that no file names any more ({error}); see on the machines"
            f" that it is off, and remove {journal.wish_file(name)}"
        ) from None
    if file.endswith(".toml") and (objection := objection_to_use(Path(file))):
        raise ConfigError(
            f"'{name}' is on the machine of {file}, which {objection}, so damoos does not log in there; chown the file,"
            f" or remove {journal.wish_file(name)}"
        )
    try:
        with Lease(machine, attempts=1) as lease:
            why = _why_not_undone(lease, spec)
    except (ConfigError, MachineError) as error:  # nobody may log in, or there is nobody
        raise MachineError(
            f"'{name}' may still be in force: machine '{file}' cannot be had ({error}); run 'damoos stop {name}' again"
            " once it can"
        ) from None
    if why:
        raise MachineError(
            f"'{name}' may still be in force: machine '{file}' {why}, and run 'damoos stop {name}' again, or remove"
            f" {journal.wish_file(name)}"
        )


def _why_not_undone(lease: Lease, spec: Mapping[str, Any]) -> str:
    """Why a policy may be in force although a machine answers, and what to do; empty if it is off."""
    if left := "; ".join(lease.call("facts")["left_behind"])[:MOST_CHARS]:
        return f"could not undo {left}; see there what keeps it"
    host, begun_on = host_of(lease.facts), spec.get("host", {})
    if is_of_another(begun_on, host):
        return f"is host '{host['hostname']}' now, and it was put on host '{begun_on['hostname']}'; correct the file"
    return ""


class _Stopped(Exception):
    """SIGTERM or SIGINT has arrived."""


class Keeper:
    """Keeps what one journal wants.

    Parameters
    ----------
    journal : PatientJournal
    woken : threading.Event
        Set when the journal has changed.
    """

    def __init__(self, journal: PatientJournal, woken: threading.Event) -> None:
        self._journal = journal
        self._woken = woken
        self._kept: dict[str, Kept] = {}
        self._beginning = ""
        self._begun: dict[str, Mapping[str, object]] = {}
        self._unreached: dict[str, str] = {}
        self._busy_until_s: dict[str, float] = {}

    def run(self, stay: bool) -> None:
        """Until nothing is wanted any more, or it is told to end; if it is to stay, only that ends it."""
        try:
            self._run(stay)
        except _Stopped:
            self._publish_metrics(is_up=False)
            raise

    def _run(self, stay: bool) -> None:
        while True:
            known = InForce(self._journal)
            if tasks := {**known.left_in_force(), **known.wanted}:
                self._run_on_their_machine(tasks)
            with self._journal.changing():  # whoever adds something now starts a keeper, or wakes this one
                self._forget_stopped()
                # What is left in force on a machine that cannot be had is left to 'damoos stop', which tries it itself.
                if not self._journal.wanted() and not stay:
                    self._publish_metrics(is_up=False)
                    self._journal.leave()
                    return
            self._pause()

    def _forget_stopped(self) -> None:
        """Forget what was stopped, if nobody need ask its machine whether it is off."""
        known = InForce(self._journal)
        for name in self._off(known) - known.left_in_force().keys():
            self._forget(name)

    def _off(self, known: InForce) -> set[str]:
        """What is neither wanted nor kept, and of which the journal does not say yet that it is off."""
        return known.to_be_off() - self._kept.keys()

    def _forget(self, name: str) -> None:
        """Say that nothing of it is in force; what its end has been called is left to whoever has to read it."""
        state = self._journal.states().get(name, {})
        if not state.keys() & {"failed", "error"}:
            self._journal.tell(name, None)
        elif "unconfirmed" in state:
            self._journal.tell(name, {key: value for key, value in state.items() if key != "unconfirmed"})
        self._journal.stopped(name)

    def _run_on_their_machine(self, tasks: Mapping[str, Mapping[str, Any]]) -> None:
        """Have the machine to which a specification leads; those before it are of other ones, or of none."""
        for name, spec in tasks.items():
            try:
                machine = _its_machine(self._journal, name, spec)
            except ConfigError as error:
                self._cannot(name, spec, error)
            else:
                return self._run_leased(machine)
        self._wait_for_what_is_left()

    def _cannot(self, name: str, spec: Mapping[str, Any], error: DamoosError) -> None:
        """Its machine cannot be had: what was in force on it once is tried again, where that can help."""
        passes = isinstance(error, (MachineTransientError, MachineBusy))
        known = InForce(self._journal)
        state = known.states.get(name, {})
        if name in known.to_be_off() or "unconfirmed" in state:
            # An agent that hears nothing ends by itself; one that keeps others off its machine has not.
            is_silent = "unconfirmed" not in state and isinstance(error, (MachineTransientError, ConfigError))
            doubt = "out_of_reach" if is_silent and spec.get("on_exit") != KEEP else "unconfirmed"
            self._journal.tell(name, {**described(spec), **state, "in_force": False, doubt: str(error)[:MOST_CHARS]})
        elif (spec.get("confirmed") and passes) or _may_have_stayed(spec):
            self._out_of_reach(name, spec, error)
        else:
            self._refuse(name, spec, error)

    def _not_undone(self, names: Iterable[str], error: DamoosError) -> None:
        """The last word of the agent is that it could not undo all; it does not tell of which policy."""
        known = InForce(self._journal)
        for name in names:
            self._journal.audit(name, f"may be in force: {error}")
            state = dict(known.states.get(name) or described(self._begun[name]))
            if name not in {**known.wanted, **known.stopping}:  # its guard has ended it, or it was refused
                refusal = state.pop("error", {})
                state.setdefault("failed", refusal.get("message", "it has ended"))
                if spec := self._begun.get(name):
                    self._journal.take_off(name, spec)
            self._journal.tell(name, {**state, "in_force": False, "unconfirmed": str(error)[:MOST_CHARS]})

    def _out_of_reach(self, name: str, spec: Mapping[str, Any], error: DamoosError) -> None:
        if self._unreached.get(name) != str(error):
            self._journal.audit(name, f"out of reach: {error}")
        self._unreached[name] = str(error)
        state = self._journal.states().get(name, described(spec))
        self._journal.tell(
            name, {**state, "in_force": False, "beginning": False, "out_of_reach": str(error)[:MOST_CHARS]}
        )

    def _wait_for_what_is_left(self) -> None:
        """Until the machine is tried again, if there is a reason to."""
        self._journal.looked()
        known = InForce(self._journal)
        if known.left_in_force() or known.wanted:
            self._woken.wait(RETRY_S)

    def _run_leased(self, machine: Machine) -> None:
        """Have the machine until nothing is wanted of it; it is as it was before anybody hears that."""
        ended: list[str] = []
        is_over = is_told_to_end = False
        try:
            with Lease(machine) as lease:
                self._journal.looked(has_machine=True)
                try:
                    while self._follow(lease, ended):
                        self._pause()
                    is_over = True
                except _Stopped:
                    is_over = is_told_to_end = True
                    ended += self._told_to_end(lease)
                    raise
        except DamoosError as error:
            if is_over and not isinstance(error, (MachineTransientError, MachineBusy)):
                self._not_undone({*(self._journal.states().keys() & set(ended)), *self._begun}, error)
                ended.clear()
            if is_told_to_end:
                raise _Stopped from None
            known = InForce(self._journal)
            for name, spec in {**known.left_in_force(), **known.wanted}.items():
                self._cannot(name, spec, error)
            self._wait_for_what_is_left()
        else:
            known = InForce(self._journal)
            if known.left_in_force().keys() - set(ended) or self._busy_until_s.keys() & known.wanted.keys():
                self._wait_for_what_is_left()
        finally:
            self._kept.clear()
            self._begun.clear()
            for name in ended:
                self._forget(name)
            self._beginning = ""
            self._publish_metrics()

    def _publish_metrics(self, is_up: bool = True) -> None:
        machine = metrics.Machine(self._journal.states(), is_up, time.time(), self._journal.is_failing)
        with contextlib.suppress(OSError):  # it is made anew at each look, so it is no part of what waits for the disk
            metrics.write(self._journal.metrics_file, self._journal.folder.name, machine)

    def _told_to_end(self, lease: Lease) -> list[str]:
        """Leave the machine to itself, with the policies that are to stay there; returns what was taken off."""
        wanted, ended = self._journal.wanted(), []
        for name, kept in self._kept.items():
            if name not in wanted:
                with contextlib.suppress(MachineTransientError):
                    kept.stop("'damoos stop'")
                    ended.append(name)
                continue
            if wanted[name].get("on_exit") == KEEP:
                self._journal.audit(name, "left in force, and without its guard: its keeper was told to end")
                continue
            self._journal.audit(name, "taken off: its keeper was told to end, and goes on with it when it is back")
            ended.append(name)
        with contextlib.suppress(DamoosError):  # an agent that cannot be told does the same when it hears nothing
            if self._beginning:
                lease.call("stop", service=self._beginning)
                self._journal.audit(self._beginning, "not put into force: its keeper was told to end")
                ended.append(self._beginning)
            lease.call("leave")
        return ended

    def _pause(self) -> None:
        """Until the next look: one in each window, and no more than four in the usual time."""
        shortest_s = min((kept.window_s for kept in self._kept.values()), default=POLL_S)
        self._woken.wait(min(POLL_S, max(shortest_s, POLL_S / 4)))
        self._woken.clear()

    def _follow(self, lease: Lease, ended: list[str]) -> bool:
        """Do what the journal says, and look at what is kept; False once nothing is."""
        wanted, stopping = self._journal.wanted(), self._journal.stopping()
        confirmed = set()
        for name in [name for name in self._kept if name not in wanted or name in stopping]:
            failed = self._journal.states().get(name, {}).get("failed")  # its file could not be read
            with contextlib.suppress(MachineTransientError):  # it is tried again, as what a keeper before has left
                self._kept.pop(name).stop(failed or "'damoos stop'")
                confirmed.add(name)
        known = InForce(self._journal)
        left = known.left_in_force()
        for name in self._off(known) | confirmed:
            if name in left and name not in confirmed and not self._is_undone(lease, name, left[name]):
                continue
            if wanted:
                self._forget(name)
            else:
                ended.append(name)
        for name in [name for name in wanted if name not in self._kept]:
            if time.monotonic() >= self._busy_until_s.get(name, 0.0):
                self._begin(lease, name, wanted[name])
        self._journal.looked(has_machine=self._look())
        self._publish_metrics()
        return bool(self._kept)

    def _is_undone(self, lease: Lease, name: str, spec: Mapping[str, Any]) -> bool:
        """Whether the agent says that nothing of it is left."""
        try:
            lease.call("stop", service=name)
            if why := _why_not_undone(lease, spec):
                raise MachineError(f"the machine {why}")
        except DamoosError as error:
            self._cannot(name, spec, error)
            return False
        return True

    def _begin(self, lease: Lease, name: str, spec: dict[str, Any]) -> None:
        with self._journal.changing():
            if name not in self._journal.wanted():  # stopped just now
                return
            self._journal.tell(name, {**described(spec), "in_force": False, "beginning": True})
        host = host_of(lease.facts)
        if is_of_another(spec.get("host", {}), host):
            why = f"its machine is host '{host['hostname']}' now, and it stays on host '{spec['host']['hostname']}'"
            self._out_of_reach(name, spec, MachineError(f"{why}; correct the machine's file"))
            self._busy_until_s[name] = time.monotonic() + RETRY_S
            return
        self._beginning = name
        self._begun[name] = spec
        try:
            run = _its_run(self._journal, name, spec)
            if spec.get("on_exit") == KEEP and not _may_have_stayed(spec):
                self._note_beginning(name, host)
            applied, about = _call(lease, spec, run)
            watched = guard_of(spec)
            kept = Kept(name, lease.call, applied, about, watched, self._journal, adaptation_of(spec, watched))
            kept.begin()
        except DamoosError as error:
            if spec.get("confirmed") and isinstance(error, MachineTransientError):
                raise
            if spec.get("confirmed") and isinstance(error, MachineBusy):  # by another of its policies, say
                self._out_of_reach(name, spec, error)
                self._busy_until_s[name] = time.monotonic() + RETRY_S
            else:
                stays = spec.get("on_exit") == KEEP and isinstance(error, MachineTransientError)
                self._refuse(name, spec, error, may_be_in_force=stays)
        except (OSError, *MALFORMED) as error:  # its file has the form of one, and its values are none, say
            self._refuse(name, spec, MachineError(f"it cannot be put into force: {in_short(error)}"))
        else:
            self._kept[name] = kept
            self._unreached.pop(name, None)
            self._busy_until_s.pop(name, None)
            self._journal.confirm(name, kept.applied.get("on"))
        self._beginning = ""

    def _note_beginning(self, name: str, host: Mapping[str, str]) -> None:
        """Write down that something is put into force that stays without its keeper.

        Raises
        ------
        MachineError : the disk does not let it, so nobody would know of it later
        """
        self._journal.begin(name, host)
        if self._journal.is_failing:
            raise MachineError(
                f"{self._journal.folder} cannot be written to: what stays without its keeper would be forgotten"
            )

    def _refuse(self, name: str, spec: Mapping[str, Any], error: DamoosError, *, may_be_in_force: bool = False) -> None:
        """Tell whoever waits for it; what was in force once has failed instead."""
        self._journal.audit(name, f"not put into force: {error}")
        why = str(error)[:MOST_CHARS]
        wrong = {"failed": why} if spec.get("confirmed") else {"error": {**to_wire(error), "message": why}}
        self._journal.tell(name, {**described(spec), "in_force": False, **wrong})
        if may_be_in_force:
            self._journal.stop(name)
        else:
            self._journal.forget(name)

    def _look(self) -> bool:
        """See how each is; whether the machine has answered."""
        wanted = self._journal.wanted()  # of what is damaged, the state says so, and a look would write over that
        kept = [(name, one) for name, one in self._kept.items() if name in wanted]
        try:
            for name, one in kept:
                if not one.look():
                    del self._kept[name]
                    if "failed" not in self._journal.states().get(name, {}):
                        self._journal.forget(name)
                        self._journal.tell(name, None)
        except (MachineTransientError, MachineBusy) as error:
            for one in self._kept.values():
                one.out_of_reach(error)
            self._woken.wait(RETRY_S)
            return False
        return bool(kept)


def _its_run(journal: Journal, name: str, spec: Mapping[str, Any]) -> RunConfig:
    """Where something in service is, and the workload if it is to be started there.

    The files of a journal may come from another person, so they lead to the machine whose folder it is and to no other.

    Raises
    ------
    ConfigError : its file names another machine
    """
    run = RunConfig(**spec["run"])
    if spec.get("on_exit") == KEEP and run.machine.endswith(".toml") and not run.machine.startswith("/"):
        raise ConfigError(
            f"'{name}' is for machine '{run.machine}', a path that depends on the folder in which an older damoos was"
            f" run, so damoos does not log in there; see on that machine that it is off, and remove"
            f" {journal.wish_file(name)}"
        )
    for machine in (spec["machine"], run.machine):
        if slug(machine) != journal.folder.name:
            raise ConfigError(
                f"'{name}' is for machine '{machine}', and {journal.folder} is of another one, so damoos does not use"
                f" that machine; remove {journal.wish_file(name).name}"
            )
    return run


def _its_machine(journal: Journal, name: str, spec: Mapping[str, Any]) -> Machine:
    """The machine that something in service is on.

    Raises
    ------
    ConfigError : its file names another machine, or none that there can be
    """
    try:
        return _its_run(journal, name, spec).machine_for(from_beginning_to_end=False)
    except (OSError, *MALFORMED) as error:
        file = journal.wish_file(name)
        raise ConfigError(f"{file}: it cannot be used: {in_short(error)}; remove the file") from None


def _call(lease: Lease, spec: Mapping[str, Any], run: RunConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments of the agent's call ``apply``, and what the state says of it."""
    stays = spec.get("on_exit") == KEEP
    applied: dict[str, Any] = {**spec["policy"], "metrics": spec["metrics"], **({"stays": True} if stays else {})}
    if spec["on"]:
        applied["on"] = spec["on"]
    else:
        workload = run.workload_on(lease.place)
        applied |= workload.spec(lease.copy, lease.facts.get("vcpus", 1), lease.facts.get("arch", ""))
    return applied, described(spec)


def _may_have_stayed(spec: Mapping[str, Any]) -> bool:
    """Whether it was put into force by a keeper before, and stays in force without one."""
    return spec.get("on_exit") == KEEP and bool(spec.get("begun") or spec.get("confirmed"))


def main() -> int:
    """The keeper process: ``python -m damoos.service.keeper FOLDER [--stay] [--detached]``."""
    if _DETACHED in sys.argv[2:] and os.fork():
        os._exit(0)
    woken = threading.Event()

    def on_end(signum: int, frame: FrameType | None) -> None:
        raise _Stopped

    signal.signal(signal.SIGUSR1, lambda *_: woken.set())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_end)
    journal, stay = PatientJournal(Path(sys.argv[1])), STAY in sys.argv[2:]
    try:
        if not _taken(journal, stay, woken):
            return 0
        os.dup2(2, 1)  # whoever started it waits for the end of its output
        Keeper(journal, woken).run(stay)
    except _Stopped:
        return 0
    except DamoosError as error:
        _say(error)
        return error.exit_code
    return 0


def _taken(journal: Journal, stay: bool, woken: threading.Event) -> bool:
    """Whether this process is the keeper now; one that is to stay waits for the one before, and for room on the disk.

    Raises
    ------
    MachineError : it cannot be, see `KeeperFile.take`
    """
    told = ""
    while True:
        try:
            if journal.take():
                return True
        except MachineError as error:
            if not stay:
                raise
            if told != str(error):
                _say(error)
            told = str(error)
        if not stay:
            return False
        woken.wait(POLL_S)


def _say(error: DamoosError) -> None:
    """Write to the keeper's log, which may be on the disk that has failed."""
    with contextlib.suppress(OSError):
        print(printable(f"damoos: {error}"), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
