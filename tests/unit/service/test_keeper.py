from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from damoos.errors import ConfigError, DamoosError, MachineBusy, MachineError, MachineLost
from damoos.service import keeper

ON = {"in_service": True, "alive": True, "in_force": True}
KDAMOND_ENDED = {**ON, "in_force": False}
NEW_AGENT = {"in_service": False, "alive": False}
PROCESS_ENDED = {"in_service": True, "alive": False, "in_force": False}


LOST = MachineLost("the machine hung up")
BUSY = MachineBusy("another damoos agent works on this machine")


class Machine:
    """An agent that answers a list of statuses, one after the other, some of them by an error."""

    def __init__(self, *statuses: dict[str, Any] | DamoosError) -> None:
        self.statuses = list(statuses)
        self.calls: list[str] = []
        self.published: list[dict[str, Any]] = []
        self.refused = 0

    def call(self, name: str, **args: Any) -> Any:
        if name == "status":
            status = self.statuses.pop(0)
            if isinstance(status, DamoosError):
                raise status
            return status
        self.calls.append(name)
        if self.refused:
            self.refused -= 1
            raise BUSY
        return None

    def watch(self, seconds_a_look: float = 2.0, **applied: Any) -> None:
        clock = iter(range(10**6))
        keeper.watch(
            self.call, applied, self.published.append, pause=lambda _: None, now=lambda: next(clock) * seconds_a_look
        )


def test_a_scheme_is_kept_until_its_process_ends() -> None:
    machine = Machine(ON, ON, PROCESS_ENDED)
    machine.watch(pid=7)
    assert machine.calls == []
    assert machine.published == [ON, ON]


def test_a_kdamond_that_ends_is_started_again() -> None:
    machine = Machine(ON, KDAMOND_ENDED, ON, PROCESS_ENDED)
    machine.watch(pid=7)
    assert machine.calls == ["renew"]
    assert machine.published[1]["in_force"] is False


def test_a_scheme_is_put_back_after_a_lost_connection() -> None:
    machine = Machine(ON, NEW_AGENT, ON, PROCESS_ENDED)
    machine.watch(pid=7)
    assert machine.calls == ["apply"]


def test_a_program_of_damoos_s_own_ends_with_the_connection_which_is_told() -> None:
    with pytest.raises(MachineError, match="connection to its machine was lost, and the program that damoos ran ended"):
        Machine(ON, NEW_AGENT).watch(argv=["redis-server"])


def test_a_scheme_that_is_lost_again_and_again_is_given_up_loudly() -> None:
    with pytest.raises(MachineError, match="it was lost 4 times within an hour"):
        Machine(*[KDAMOND_ENDED] * 9).watch(pid=7)
    seldom = Machine(*[KDAMOND_ENDED] * 9, PROCESS_ENDED)
    seldom.watch(seconds_a_look=1800.0, pid=7)
    assert seldom.calls == ["renew"] * 9


def test_a_machine_out_of_reach_is_tried_again() -> None:
    machine = Machine(ON, LOST, BUSY, NEW_AGENT, ON, PROCESS_ENDED)
    machine.watch(pid=7)
    assert machine.calls == ["apply"]
    assert machine.published[1:3] == [{"out_of_reach": str(LOST)}, {"out_of_reach": str(BUSY)}]
    with pytest.raises(MachineLost):
        Machine(ON, *[LOST] * 999).watch(pid=7)


def test_only_what_was_put_back_counts_as_put_back() -> None:
    machine = Machine(*[NEW_AGENT] * 7, ON, PROCESS_ENDED)
    machine.refused = 6
    machine.watch(pid=7)
    assert machine.calls == ["apply"] * 7


def test_an_agent_that_dies_while_it_renews_has_its_scheme_put_back_by_the_next() -> None:
    machine = Machine(KDAMOND_ENDED, NEW_AGENT, ON, PROCESS_ENDED)
    machine.watch(pid=7)
    assert machine.calls == ["renew", "apply"]


def test_what_failed_is_told_and_then_forgotten(tmp_path: Path) -> None:
    state = {"keeper_pid": 4_194_000, "study": "s", "scheme": "4K max ...", "pid": 7, "machine": "there"}
    keeper.state_file(tmp_path).write_text(json.dumps(state))
    assert keeper.read_state(tmp_path) is None
    keeper.state_file(tmp_path).write_text(json.dumps({**state, "failed": "it was lost"}))
    stopped = keeper.stop(tmp_path)
    assert keeper.describe(stopped) == "4K max ...  is no longer on process 7 of machine there: it was lost"
    with pytest.raises(ConfigError, match="nothing is in service here"):
        keeper.stop(tmp_path)


SPEC = {
    "study": "s", "arm": "tuned", "machine": "local", "pid": None, "pid_file": "/run/it's 100%/$pid", "results": "/r",
    "storage": None,
}  # fmt: skip


def test_out_of_reach_is_told() -> None:
    state = {"keeper_pid": 1, "study": "s", "scheme": "4K max ...", "pid": 7, "machine": "there", "for_s": 60}
    assert keeper.describe(state) == "4K max ...  on process 7 of machine there for 1m (study s)"
    lost = keeper.describe({**state, "out_of_reach": "hung up"})
    assert lost == "4K max ...  on process 7 of machine there for 1m (study s); out of reach: hung up"


def test_a_unit_says_what_the_keeper_is_told() -> None:
    """As systemd.syntax(7) and systemd.service(5) have it: C escapes in quotes, %% and $$."""
    (words,) = re.findall(r"^ExecStart=\S+ -m damoos\.service\.keeper '(.*)'$", keeper.unit(SPEC), re.MULTILINE)
    for escaped, sign in (("$$", "$"), ("%%", "%"), ("\\'", "'"), ("\\\\", "\\")):
        words = words.replace(escaped, sign)
    assert json.loads(words) == SPEC


def test_a_unit_for_a_process_id_is_refused() -> None:
    with pytest.raises(ConfigError, match=f"process {os.getpid()} does not outlive a reboot; give --pid-file"):
        keeper.unit({**SPEC, "pid": os.getpid()})
