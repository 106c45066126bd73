"""What a results folder says is in service, and how it ends; the machine is in tests/guest/test_service.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from damoos.errors import ConfigError
from damoos.service import keeper, listing, metrics, systemd
from damoos.service.journal import Journal
from damoos.testing.rollout_fleet import spec
from tests.conftest import until
from tests.unit.service.conftest import Host, run

SPEC = spec(machine="there")
STATE = {"study": "s", "machine": "there", "on": "unit:redis.service", "scheme": "senpai", "in_force": True}


def test_what_is_in_service_is_told_by_its_name(tmp_path: Path) -> None:
    assert listing.listed(tmp_path) == {}
    journal = Journal.of(tmp_path, "there")
    journal.want("redis", SPEC)
    journal.tell("redis", STATE)
    journal.tell("nginx", {**STATE, "failed": "its guard has taken it off: p99_ms is 30"})
    found = listing.listed(tmp_path)
    assert found.keys() == {"redis", "nginx"}
    assert found["redis"]["lost"] == "no keeper runs, so the machine is as it was before"
    assert "lost" not in found["nginx"]


def test_what_failed_is_told_and_then_forgotten(tmp_path: Path) -> None:
    Journal.of(tmp_path, "there").tell("redis", {**STATE, "failed": "it was lost"})
    name, state = keeper.stop(tmp_path)
    line = "redis: senpai is no longer on unit:redis.service of machine there: it was lost"
    assert listing.describe(name, state) == line
    with pytest.raises(ConfigError, match="nothing is in service here"):
        keeper.stop(tmp_path)


def test_stop_takes_a_name_where_there_are_several(tmp_path: Path) -> None:
    for name, machine in (("redis", "here"), ("nginx", "there")):
        journal = Journal.of(tmp_path, machine)
        journal.want(name, SPEC)
        journal.tell(name, STATE)
    with pytest.raises(ConfigError, match=r"2 are in service; name one of redis, nginx, or give --all"):
        keeper.stop(tmp_path)
    with pytest.raises(ConfigError, match="'regis' is not in service; did you mean 'redis'"):
        keeper.stop(tmp_path, "regis")
    assert keeper.stop(tmp_path, "redis")[0] == "redis"
    assert keeper.stop(tmp_path)[0] == "nginx"


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    Journal.of(tmp_path, "elsewhere").want("redis", SPEC)
    with pytest.raises(ConfigError, match="'redis' is in service already; end that with 'damoos stop redis'"):
        keeper.apply({**SPEC, "results": str(tmp_path)})


@pytest.mark.parametrize(
    ("more", "end"),
    [
        ({"for_s": 60}, "senpai  on unit:redis.service of machine there for 1m (study s)"),
        ({"out_of_reach": "hung up"}, "(study s); out of reach: hung up"),
        ({"paused": True}, "(study s); paused by its guard"),
        ({"in_force": False}, "(study s); waits for processes"),
        ({"lost": "no keeper runs"}, "no keeper runs; start its systemd unit, or 'damoos stop redis'"),
    ],
)
def test_how_it_is_stands_in_one_line(more: dict[str, Any], end: str) -> None:
    assert listing.describe("redis", {**STATE, **more}).endswith(end)


def test_one_keeper_has_a_journal(tmp_path: Path) -> None:
    first, second = Journal(tmp_path), Journal(tmp_path)
    assert first.take()
    assert not second.take()
    assert first.keeper_pid == 0  # this process is no keeper
    first.leave()
    assert second.take()
    second.leave()


def test_the_oldest_wish_comes_first(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for name in ("b", "a", "c"):
        journal.want(name, SPEC)
    assert list(journal.wanted()) == ["b", "a", "c"]
    journal.forget("a")
    assert list(journal.wanted()) == ["b", "c"]


def test_a_unit_has_the_journal_of_its_machine(tmp_path: Path) -> None:
    """As systemd.syntax(7) and systemd.service(5) have it: C escapes in quotes, %% and $$."""
    journal = Journal(tmp_path / 'it\'s "100%" $HOME')
    text = systemd.unit(journal, {"redis": SPEC})
    (words,) = re.findall(r'^ExecStart=\S+ -P -m damoos\.service\.keeper "(.*)" --stay$', text, re.MULTILINE)
    for escaped, sign in (("$$", "$"), ("%%", "%"), ('\\"', '"'), ("\\\\", "\\")):
        words = words.replace(escaped, sign)
    assert words == str(journal.folder)


# A name as a colleague's folder has it, who means to have a program run at each boot.
SECTION = "redis\n[Service]\nExecStartPre=sh -c id"


@pytest.mark.parametrize("name", [SECTION, "a\x1b[2J", "%h", "$HOME", "a b", "a'", "-x"])
@pytest.mark.parametrize("ending", ["json", "state"])
def test_a_file_with_no_name_of_a_service_is_named_in_one_line_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, ending: str
) -> None:
    journal = Journal.of(tmp_path, "there")
    journal.want("nginx", SPEC)
    journal.tell("nginx", STATE)
    (journal.folder / f"nginx.{ending}").rename(journal.folder / f"{name}.{ending}")
    assert name not in listing.listed(tmp_path)
    assert name not in {**journal.wanted(), **journal.states()}
    (line,) = {*capsys.readouterr().err.splitlines()}
    assert line.isprintable()
    assert line.endswith("this is no name of anything in service, so it is left out; remove it")
    assert len(systemd.unit(journal, journal.wanted()).splitlines()) == 12


def test_a_unit_has_the_lines_that_damoos_writes_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"'redis.*cannot be a name in service: use letters, digits"):
        systemd.unit(Journal(tmp_path), {SECTION: SPEC})
    with pytest.raises(ConfigError, match=r"a line feed or another sign that is not to be seen .*; rename the folder"):
        systemd.unit(Journal(tmp_path / SECTION.replace("\n", "\r")), {"redis": SPEC})
    with pytest.raises(ConfigError, match=r"a line feed or another sign that is not to be seen .*; rename the folder"):
        systemd.unit(Journal(tmp_path / SECTION), {"redis": SPEC})
    for program in ('/usr/bin/"x', "/usr/bin/a b", "/usr/bin/$x", "/usr/bin/%h", "/a\n[Service]", "python"):
        monkeypatch.setattr(sys, "executable", program)
        with pytest.raises(ConfigError, match="cannot start a program with such a path"):
            systemd.unit(Journal(tmp_path), {"redis": SPEC})


def test_what_a_state_says_is_one_line(tmp_path: Path) -> None:
    line = listing.describe("redis", {**STATE, "scheme": "a\nnginx: b", "machine": "\x1b[2J"})
    assert line.isprintable()


def test_a_unit_for_a_process_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'redis' is on process 7, which does not outlive a reboot; use --on unit:"):
        systemd.unit(Journal(tmp_path), {"redis": {**SPEC, "on": {"kind": "pid", "pid": 7}}})


def test_the_numbers_are_prometheus_s(tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    reading = {"memory_bytes": 100, "swap_bytes": 50, "compressed_bytes": 20}
    state = {
        **STATE, "nr_processes": 3, "rss_bytes": 90, "restarts": 1, "kdamond_cpu_s": 1.5, "reading": reading,
        "watched": {"memory_pressure": 0.01}, "damos": [{"sz_applied_bytes": 4096}],
    }  # fmt: skip
    file = tmp_path / "metrics.prom"
    states = {"redis": state, "nginx": {**STATE, "in_force": False, "failed": "x"}}
    metrics.write(file, "there", metrics.Machine(states, True, 1e9, False))
    families = text_string_to_metric_families(file.read_text())
    found = {
        (sample.name, sample.labels.get("service", ""), sample.labels.get("metric", "")): sample.value
        for family in families
        for sample in family.samples
    }
    assert found["damoos_in_force", "redis", ""] == 1
    assert found["damoos_saved_bytes", "redis", ""] == 30
    assert found["damoos_policy_cpu_seconds", "redis", ""] == 1.5
    assert found["damoos_watched", "redis", "memory_pressure"] == 0.01
    assert found["damoos_failed", "nginx", ""] == 1
    assert ("damoos_saved_bytes", "nginx", "") not in found
    assert json.dumps(state)  # a state is plain


def test_what_was_in_force_once_waits_for_its_machine(kept_by: tuple[Journal, Host, dict[str, Any]]) -> None:
    """After a boot, say, the host that is to have it may come later than the keeper."""
    journal, host, spec = kept_by
    journal.want("redis", spec)
    journal.confirm("redis", {**spec["on"], "started": 4711})
    host.lost_for = 1_000_000
    thread = run(journal)
    until(lambda: journal.states().get("redis", {}).get("out_of_reach"))
    assert "out of reach" in listing.describe("redis", journal.states()["redis"])
    host.lost_for = 0
    until(lambda: journal.states()["redis"].get("in_force"))
    assert host.applied["redis"]["on"] == {"kind": "pid", "pid": 7, "started": 4711}
    with journal.changing():  # its keeper may be writing that it has been in force
        journal.forget("redis")
    thread.join(60)
    assert host.applied == {}
    assert "redis" not in journal.states()


def test_what_is_stopped_while_its_machine_is_out_of_reach_is_gone(
    kept_by: tuple[Journal, Host, dict[str, Any]],
) -> None:
    journal, host, spec = kept_by
    journal.want("redis", spec)
    journal.confirm("redis", spec["on"])
    host.lost_for = 1_000_000
    thread = run(journal)
    until(lambda: journal.states().get("redis", {}).get("out_of_reach"))
    with journal.changing():  # its keeper may be writing that it has been in force
        journal.forget("redis")
    thread.join(60)
    assert journal.states() == {}


def test_what_was_never_in_force_fails_at_once(kept_by: tuple[Journal, Host, dict[str, Any]]) -> None:
    journal, host, spec = kept_by
    journal.want("redis", spec)
    host.lost_for = 100
    run(journal).join(60)
    assert journal.states()["redis"]["error"] == {"type": "MachineLost", "message": "there: no route to host"}
    assert journal.wanted() == {}


def test_one_keeper_has_several_in_force(kept_by: tuple[Journal, Host, dict[str, Any]]) -> None:
    journal, host, spec = kept_by
    journal.want("redis", spec)
    thread = run(journal)
    until(lambda: "redis" in host.applied)
    journal.want("nginx", {**spec, "name": "nginx"})
    until(lambda: journal.wanted().get("nginx", {}).get("confirmed"))
    assert set(host.applied) == {"redis", "nginx"}
    with journal.changing():  # its keeper may be writing that it has been in force
        journal.forget("redis")
    until(lambda: "redis" not in journal.states())
    assert set(host.applied) == {"nginx"}
    journal.forget("nginx")
    thread.join(60)
    assert host.applied == {}
    assert "nginx" not in journal.metrics_file.read_text()


def test_a_keeper_needs_no_store() -> None:
    """There is one for each host of a fleet: it has what it needs in its journal, and none of what studies need."""
    heavy = "{'optuna', 'scipy', 'pandas', 'sqlalchemy', 'sklearn', 'pyarrow'}"
    script = f"import sys, damoos.service.keeper; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("order", [("evil", "redis"), ("redis", "evil")])
def test_what_leads_to_another_machine_is_refused_and_the_others_are_kept(
    kept_by: tuple[Journal, Host, dict], order: tuple[str, str]
) -> None:
    """It comes from another person."""
    journal, host, spec = kept_by
    evil = {**spec, "name": "evil", "confirmed": True, "run": {**spec["run"], "machine": "/evil.toml"}}
    for name in order:
        journal.want(name, {"evil": evil, "redis": spec}[name])
    thread = run(journal)
    until(lambda: journal.states().get("redis", {}).get("in_force") and "failed" in journal.states().get("evil", {}))
    assert set(host.applied) == {"redis"}
    assert "'evil' is for machine '/evil.toml', and" in journal.states()["evil"]["failed"]
    with journal.changing():  # its keeper may be writing that it has been in force
        journal.forget("redis")
    thread.join(60)
