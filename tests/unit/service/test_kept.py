"""A policy in service, with an agent that answers a list of statuses."""

from __future__ import annotations

import itertools
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damoos.damon.damo_json import context_from_json, context_to_json
from damoos.damon.scheme import Context
from damoos.errors import DamoosError, MachineBusy, MachineLost, UnsupportedError
from damoos.service import kept
from damoos.service.guard import Guard, parse
from damoos.service.journal import Journal
from damoos.testing import rollout_fleet

READING = {
    "is_group": True, "psi_us": {"some": 0}, "counters": {}, "metrics": {}, "ages_s": {}, "missing": {},
    "memory_bytes": 100, "swap_bytes": 50, "compressed_bytes": 20,
}  # fmt: skip
ON = {
    "in_service": True, "alive": True, "in_force": True, "paused": False, "changed": [], "restarts": 0, "pid": 7,
    "nr_processes": 1, "for_s": 1.0, "rss_bytes": 90,
}  # fmt: skip
KDAMOND_ENDED = {**ON, "in_force": False}
NEW_AGENT = {"in_service": False, "alive": False, "in_force": False, "nr_processes": 0}
PROGRAM_ENDED = {**ON, "alive": False, "in_force": False, "nr_processes": 0}
WAITING = {**ON, "in_force": False, "nr_processes": 0, "pid": 0}
PAGES_OUT = context_to_json(Context.parse("4K max min min 4s max pageout", "vaddr"))
LOST = MachineLost("the machine hung up")
BUSY = MachineBusy("another damoos agent works on this machine")


def reading(at_s: float, some_us: float) -> dict[str, Any]:
    return {**READING, "at_s": at_s, "psi_us": {"some": some_us}}


class Machine:
    """An agent that answers a list of statuses, one after the other, some of them by an error."""

    def __init__(
        self,
        folder: Path,
        *statuses: dict[str, Any] | DamoosError,
        on: dict[str, Any] | None = None,
        judges: bool = True,
        adapts: bool = False,
    ) -> None:
        self.journal = Journal(folder)
        self.statuses = list(statuses)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.refuses: dict[str, DamoosError] = {}
        self.now_s = 0.0
        guard = Guard([parse("memory_pressure<=1%")], 10.0, judges)
        applied = {"context": PAGES_OUT if adapts else None, "on": on or {"kind": "pid", "pid": 7}}
        about = {"scheme": "senpai", "on": "pid:7"}
        spec = rollout_fleet.spec(proven_us=4_000_000 if adapts else 0, policy=applied)
        adaptation = kept.adaptation_of(spec, guard)
        self.journal.want("redis", spec)
        self.kept = kept.Kept("redis", self.call, applied, about, guard, self.journal, adaptation, lambda: self.now_s)
        self.kept.begin()
        self.calls.clear()

    def call(self, call: str, **args: Any) -> Any:
        if call == "status":
            status = self.statuses.pop(0)
            if isinstance(status, DamoosError):
                raise status
            return status
        self.calls.append((call, args))
        if error := self.refuses.get(call):
            raise error
        return {"pid": 7, "started": 4711, "accepted": {}, "swap_bytes": 0} if call == "apply" else None

    def look(self, seconds_a_look: float = 2.0) -> list[bool | str]:
        """All statuses; what each look said."""
        said: list[bool | str] = []
        while self.statuses:
            self.now_s += seconds_a_look
            try:
                said.append(self.kept.look())
            except (MachineLost, MachineBusy) as error:
                self.kept.out_of_reach(error)
                said.append(str(error))
        return said

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    @property
    def state(self) -> dict[str, Any]:
        return self.journal.states()["redis"]

    @property
    def audit(self) -> str:
        return (self.journal.folder / "audit.log").read_text()


def test_a_policy_is_kept_until_its_program_ends(tmp_path: Path) -> None:
    machine = Machine(tmp_path, ON, ON, PROGRAM_ENDED)
    assert machine.look() == [True, True, False]
    assert machine.names == ["stop"]
    assert "put into force: senpai on pid:7" in machine.audit
    assert "its program has ended" in machine.audit


def test_a_policy_that_was_lost_is_put_back(tmp_path: Path) -> None:
    machine = Machine(tmp_path, ON, KDAMOND_ENDED, ON, NEW_AGENT, ON)
    assert machine.look() == [True] * 5
    assert machine.names == ["renew", "apply"]
    again = machine.calls[1][1]
    assert again["on"] == {"kind": "pid", "pid": 7, "started": 4711}  # never on another process of that id


def test_a_program_of_damoos_s_own_ends_with_the_connection_which_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path, ON, NEW_AGENT)
    machine.kept.applied.pop("on")
    assert machine.look() == [True, False]
    assert "the program that damoos ran ended with it" in machine.state["failed"]
    assert machine.journal.wanted() == {}


def test_a_policy_that_is_lost_again_and_again_is_given_up(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "often", *[{**KDAMOND_ENDED, "why": "no swap"}] * 4)
    assert machine.look() == [True, True, True, False]
    assert machine.state["failed"] == "it was lost 4 times within an hour: no swap"
    assert machine.names == ["renew"] * 3 + ["stop"]
    seldom = Machine(tmp_path / "seldom", *[KDAMOND_ENDED] * 9)
    assert seldom.look(seconds_a_look=1800.0) == [True] * 9


def test_a_clock_that_jumps_by_a_day_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows stay in their order, and losses within an hour are counted by a steady clock."""
    jumps = itertools.cycle((1e9, 1e9 + 86400, 1e9 - 86400))
    monkeypatch.setattr("time.time", lambda: next(jumps))
    machine = Machine(tmp_path / "windows", *under_load(*[1000.0] * 8))
    assert machine.look() == [True] * 8
    times = [window["at_s"] for window in machine.journal.windows("redis")]
    assert len(times) == 7
    assert times == sorted(set(times))
    often = Machine(tmp_path / "often", *[KDAMOND_ENDED] * 4)
    assert often.look() == [True, True, True, False]
    seldom = Machine(tmp_path / "seldom", *[KDAMOND_ENDED] * 9)
    assert seldom.look(seconds_a_look=1800.0) == [True] * 9


def test_a_machine_out_of_reach_is_looked_at_again(tmp_path: Path) -> None:
    machine = Machine(tmp_path, ON, LOST, BUSY, NEW_AGENT, ON)
    assert machine.look() == [True, str(LOST), str(BUSY), True, True]
    assert machine.names == ["apply"]
    assert machine.audit.count("out of reach") == 1
    assert "within reach again" in machine.audit


def test_a_machine_that_is_lost_while_it_is_put_back_is_out_of_reach(tmp_path: Path) -> None:
    machine = Machine(tmp_path, NEW_AGENT, NEW_AGENT, ON)
    machine.refuses["apply"] = BUSY
    assert machine.look()[0] == str(BUSY)
    machine.refuses.clear()
    assert machine.names == ["apply", "apply"]


def test_what_somebody_else_has_changed_stays(tmp_path: Path) -> None:
    changed = ["/proc/sys/vm/swappiness is '10', which damoos had set to '180'"]
    machine = Machine(tmp_path, ON, {**ON, "in_force": False, "changed": changed})
    assert machine.look() == [True, False]
    assert machine.state["failed"].startswith("somebody else has changed it, and theirs stays: /proc/sys/vm/swappiness")
    assert machine.journal.wanted() == {}


def test_the_guard_pauses_resumes_and_ends_a_policy(tmp_path: Path) -> None:
    """A task waits half of each window in force, and not at all in the three, six, and twelve windows between."""
    now_s, some_us = 0.0, 0.0
    looks = [{**ON, "reading": reading(0.0, 0.0)}]
    for calm in (3, 6, 12, 0):
        now_s, some_us = now_s + 10, some_us + 5e6
        looks.append({**ON, "reading": reading(now_s, some_us)})
        for _ in range(calm + 1 if calm else 0):  # the first reading after a decision begins a window
            looks.append({**ON, "paused": True, "reading": reading(now_s, some_us)})
            now_s += 10
        if calm:
            looks.append({**ON, "reading": reading(now_s, some_us)})
    machine = Machine(tmp_path, *looks)
    assert machine.look() == [True] * (len(looks) - 1) + [False]
    assert machine.names == ["pause", "resume"] * 3 + ["stop"]
    assert "its guard has taken it off: far-again: memory_pressure is 0.5" in machine.state["failed"]
    assert machine.state["watched"] == {"memory_pressure": 0.5}
    assert "guard: pause: far: memory_pressure is 0.5 in a window of 10 s" in machine.audit
    assert "guard: resume: calm: all limits are kept while the policy is paused" in machine.audit


def test_what_is_only_watched_is_never_taken_off_for_what_it_does(tmp_path: Path) -> None:
    windows = [{**ON, "reading": reading(10.0 * nth, 5e6 * nth)} for nth in range(12)]
    machine = Machine(tmp_path, *windows, judges=False)
    assert machine.look() == [True] * 12
    assert machine.names == []
    kept = machine.journal.windows("redis")
    assert len(kept) == 11
    assert {key: kept[0][key] for key in ("paused", "net_bytes", "watched")} == {
        "paused": False, "net_bytes": 120, "watched": {"memory_pressure": 0.5},
    }  # fmt: skip


def test_processes_that_come_in_the_place_of_others_begin_a_new_window(tmp_path: Path) -> None:
    before, after = {**ON, "reading": reading(0, 0)}, {**ON, "restarts": 1, "pid": 9, "reading": reading(10, 5e6)}
    machine = Machine(tmp_path, before, WAITING, after, {**after, "reading": reading(20, 5e6)})
    assert machine.look() == [True] * 4
    assert machine.names == []
    assert machine.state["watched"] == {"memory_pressure": 0.0}
    assert machine.state["pid"] == 9
    assert "put on the processes that have come, process 9 first" in machine.audit


def test_a_new_agent_counts_restarts_anew(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {**ON, "restarts": 2}, NEW_AGENT, WAITING, {**ON, "restarts": 1}, ON)
    assert machine.look() == [True] * 5
    assert machine.names == ["apply"]
    assert machine.audit.count("put on the processes that have come") == 2


def test_a_policy_that_cannot_be_taken_off_says_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {**ON, "changed": ["x"]})
    machine.refuses["stop"] = UnsupportedError("the kernel refused")
    assert machine.look() == [False]
    assert machine.state["failed"].endswith("; and taking it off failed: the kernel refused")


@pytest.mark.parametrize("name", ["apply", "status"])
def test_an_error_of_the_machine_s_ends_it(tmp_path: Path, name: str) -> None:
    machine = Machine(tmp_path, UnsupportedError("no PSI") if name == "status" else NEW_AGENT)
    machine.refuses = {"apply": UnsupportedError("no PSI")} if name == "apply" else {}
    assert machine.look() == [False]
    assert machine.state["failed"] == "no PSI"


@pytest.mark.parametrize("key", ["in_force", "paused", "rss_bytes", "psi_us", "damos"])
def test_a_status_that_cannot_be_computed_with_ends_it(tmp_path: Path, key: str) -> None:
    looks = under_load(*[0.0] * 3)
    hostile = [{name: value for name, value in status.items() if name != key} for status in looks]
    if key == "psi_us":
        hostile = [{**status, "reading": {**status["reading"], "psi_us": {"some": "x"}}} for status in looks]
    machine = Machine(tmp_path, *hostile, adapts=True)
    while machine.kept.look():
        pass
    assert machine.names == ["stop"]
    assert machine.state["failed"].startswith("what its machine answers cannot be computed with: ")
    assert machine.journal.wanted() == {}


@pytest.mark.parametrize(
    "told",
    [
        {"kdamond_cpu_s": 1e308}, {"kdamond_cpu_s": math.nan}, {"for_s": 1e20}, {"rule": {"x" * (1 << 20): 1.0}},
        {"reading": {**READING, "at_s": 1.0, "missing": {"p99_ms": "A" * (2 << 20)}}},
        {"damos": [{"sz_applied_bytes": "x"}]},
    ],
    ids=lambda told: next(iter(told)),
)  # fmt: skip
def test_a_machine_whose_words_no_state_takes_does_not_fill_the_disk(
    tmp_path: Path, told: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(tmp_path, *[{**ON, **told}] * 5)
    for _ in range(5):
        machine.kept.look()
        assert machine.state["in_force"]
    assert not list(tmp_path.glob("*.bad*"))
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 10_000
    assert capsys.readouterr().err == ""


def test_what_a_rule_has_not_decided_yet_is_left_out(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {**ON, "rule": {"cpu_s": 0.5, "threshold_s": math.inf}})
    assert machine.look() == [True]
    assert machine.state["rule"] == {"cpu_s": 0.5}
    assert machine.state["rss_bytes"] == 90


def test_a_reason_of_the_machine_s_is_cut(tmp_path: Path) -> None:
    for name, status in (("changed", {**ON, "changed": ["x" * 50_000] * 50}), ("why", KDAMOND_ENDED)):
        folder = tmp_path / name
        machine = Machine(folder, *[{**status, "why": "y" * (2 << 20)}] * 4)
        machine.look()
        assert machine.state["failed"]
        assert sum(file.stat().st_size for file in folder.iterdir()) < 50_000


def under_load(*waits_us: float, begin_s: float = 0.0, paused: bool = False) -> list[dict[str, Any]]:
    """A look every 10 s, so each is a window, in which some task waits for so long."""
    looks = [reading(begin_s + 10.0 * nth, sum(waits_us[: nth + 1])) for nth in range(len(waits_us))]
    return [{**ON, "paused": paused, "damos": [{"sz_tried_bytes": 0}], "reading": look} for look in looks]


def test_a_policy_that_adapts_backs_off_online_and_is_kept_so(tmp_path: Path) -> None:
    """1.5 times the limit after 20 windows; the guard itself would wait until the mean is shown to be beyond it."""
    machine = Machine(tmp_path, *under_load(*[1000.0] * 20, 150_000.0), adapts=True)
    assert all(said is True for said in machine.look())
    assert machine.names == ["commit"]
    context = context_from_json(machine.calls[0][1]["context"])
    assert context.schemes[0].pattern.min_age_us == 8_000_000
    assert "adapt: min_age 8s: memory_pressure was 0.015" in machine.audit
    wanted = machine.journal.wanted()["redis"]
    assert wanted["policy"]["context"] == machine.kept.applied["context"] == machine.calls[0][1]["context"]
    assert wanted["proven_us"] == 4_000_000
    assert machine.state["scheme"] == wanted["scheme"] == str(context.schemes[0])
    assert machine.state["adapting"] == "watches for a change"
    assert machine.journal.windows("redis")[0]["min_age_us"] == 4_000_000


def test_what_a_guard_pauses_comes_back_more_careful(tmp_path: Path) -> None:
    machine = Machine(tmp_path, *under_load(0.0, 500_000.0), adapts=True)
    assert machine.look() == [True, True]
    assert machine.names == ["pause", "commit"]
    assert context_from_json(machine.calls[1][1]["context"]).schemes[0].pattern.min_age_us == 8_000_000
    machine.statuses += under_load(*[0.0] * 4, begin_s=20.0, paused=True)
    machine.look()
    assert machine.names == ["pause", "commit", "resume"]


def test_a_machine_without_swap_is_told_of(tmp_path: Path) -> None:
    machine = Machine(tmp_path, adapts=True)
    assert machine.state["note"] == kept.NO_SWAP
    assert "note" not in Machine(tmp_path / "no scheme").state


def test_a_lower_age_that_has_been_proven_is_what_the_next_keeper_begins_with(tmp_path: Path) -> None:
    """The workload comes to use less memory; of that, the lower age saves more."""
    machine = Machine(tmp_path, adapts=True)
    adaptation = machine.kept._adaptation
    assert adaptation
    for nth in range(300):
        memory_mib = 100 if nth < 20 else 50 if adaptation.age_now_us >= 4_000_000 else 40
        look = reading(10.0 * nth, 0.0) | {"memory_bytes": memory_mib << 20}
        machine.statuses.append({**ON, "damos": [{"sz_tried_bytes": nth}], "reading": look})
        machine.look()
        if "it saves more" in machine.audit:
            break
    assert "min_age 2s: it saves more, and keeps all limits: 40.0 MiB beside 50.0 MiB" in machine.audit
    wanted = context_from_json(machine.journal.wanted()["redis"]["policy"]["context"])
    assert wanted.schemes[0].pattern.min_age_us == adaptation.age_us == 2_000_000


@settings(max_examples=60)
@given(st.lists(st.sampled_from(["calm", "more", "beyond", "far", "restart", "lost", "ended"]), max_size=120))
def test_what_is_in_force_is_what_adaptation_says_whatever_happens(events: list[str]) -> None:
    """And the journal has the age that is kept, so that the next keeper never begins with a trial."""
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), adapts=True)
        waited_us, restarts = 0.0, 0
        for nth, event in enumerate(events):
            waited_us += {"more": 50_000.0, "beyond": 150_000.0, "far": 400_000.0}.get(event, 1000.0)
            restarts += event == "restart"
            memory = 50 if event == "more" else 100
            status: dict[str, Any] = {
                **ON, "paused": "pause" in machine.names[-2:] and "resume" not in machine.names[-1:],
                "restarts": restarts, "damos": [{"sz_tried_bytes": nth}], "in_force": event != "ended",
                "reading": reading(10.0 * nth, waited_us) | {"memory_bytes": memory << 20},
            }  # fmt: skip
            machine.statuses.append(NEW_AGENT if event == "lost" else status)
            if machine.look(seconds_a_look=1800.0) == [False]:
                break
            adaptation = machine.kept._adaptation
            assert adaptation
            in_force = context_from_json(machine.kept.applied["context"]).schemes[0].pattern.min_age_us
            assert in_force == adaptation.age_now_us
            told = [args["context"] for name, args in machine.calls if name in ("commit", "apply")]
            assert not told or told[-1] == machine.kept.applied["context"]
            kept_us = context_from_json(machine.journal.wanted()["redis"]["policy"]["context"])
            assert kept_us.schemes[0].pattern.min_age_us == adaptation.age_us
