"""Numbers of what is in service: what Prometheus is told over HTTP, and the dashboard that shows them."""

from __future__ import annotations

import errno
import http.client
import json
import os
import re
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from damoos.dispatch.own_process import OwnProcess
from damoos.errors import MachineError
from damoos.service import listing, liveness, metrics
from damoos.service.journal import Journal
from damoos.testing.rollout_fleet import spec

STATE = {
    "study": "s", "in_force": True, "nr_processes": 3, "kdamond_cpu_s": 1.5, "watched": {"memory_pressure": 0.01},
    "damos": [{"sz_applied_bytes": 4096}], "reading": {"memory_bytes": 100, "swap_bytes": 50, "compressed_bytes": 20},
}  # fmt: skip


def asked(port: int, accept: str) -> tuple[str, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


@pytest.fixture
def keepers(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Processes that count as keepers of any journal."""
    alive = {os.getpid()}
    monkeypatch.setattr(OwnProcess, "is_running", property(lambda process: process.pid in alive))
    return alive


def numbers(results: Path) -> dict[tuple[str, str], float]:
    """What Prometheus would get, by the name and the machine."""
    server = metrics.serve(results, 0)
    try:
        text = asked(server.server_address[1], "application/openmetrics-text; version=1.0.0")[1]
    finally:
        server.shutdown()
        server.server_close()
    samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
    return {(sample.name, sample.labels["machine"]): sample.value for sample in samples}


def test_a_dead_keeper_looks_dead(tmp_path: Path, keepers: set[int]) -> None:
    """It was killed, and has left its last state."""
    journal = Journal.of(tmp_path, "web1")
    journal.want("redis", spec(machine="web1"))
    journal.tell("redis", STATE)
    assert journal.take()
    before_s = journal.keeper.looked_s
    found = numbers(tmp_path)
    assert (found["damoos_keeper_up", "web1"], found["damoos_in_force", "web1"]) == (1, 1)
    journal.leave()
    found = numbers(tmp_path)
    assert (found["damoos_keeper_up", "web1"], found["damoos_in_force", "web1"]) == (0, 0)
    assert found["damoos_keeper_last_look_timestamp_seconds", "web1"] == before_s
    assert ("damoos_rss_bytes", "web1") not in found
    journal.tell("redis", None)  # as a keeper that was told to end leaves it
    assert numbers(tmp_path)["damoos_in_force", "web1"] == 0
    assert listing.listed(tmp_path)["redis"]["lost"]


def test_a_machine_that_cannot_be_read_does_not_keep_the_others(
    tmp_path: Path, keepers: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for machine in ("web1", "web2"):
        assert Journal.of(tmp_path, machine).take()
    states = Journal.states

    def broken(journal: Journal) -> Any:
        if journal.folder.name == "web1":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return states(journal)

    monkeypatch.setattr(Journal, "states", broken)
    assert [one for one in numbers(tmp_path) if one[0] == "damoos_keeper_up"] == [("damoos_keeper_up", "web2")]


def test_a_keeper_that_has_looked_in_this_millisecond_is_not_late(
    tmp_path: Path, keepers: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "_steady_s", lambda: 70000.0019)
    journal = Journal.of(tmp_path, "web1")
    assert journal.take()
    assert journal.keeper.age_s < 0.01
    journal.leave()


def test_a_keeper_that_does_not_look_is_late_whatever_the_clock_says(
    tmp_path: Path, keepers: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal.of(tmp_path, "web1")
    journal.tell("redis", {**STATE, "machine": "web1", "scheme": "senpai", "on": "unit:redis.service"})
    assert journal.take()
    now_s, steady_s = time.time(), liveness._steady_s()
    for wall_s in (now_s - 86400, now_s + 86400):
        monkeypatch.setattr(time, "time", lambda wall_s=wall_s: wall_s)
        assert not journal.keeper.is_late
    monkeypatch.setattr(liveness, "_steady_s", lambda: steady_s + 3600)
    line = listing.describe("redis", listing.listed(tmp_path)["redis"])
    assert line.endswith(
        f"its keeper (process {os.getpid()}) lives and has not looked for 1h: end it, and start or apply it again"
    )
    in_force = [value for (name, *_), value in numbers(tmp_path).items() if name == "damoos_in_force"]
    assert in_force == [0.0]
    journal.leave()


def test_all_machines_of_a_folder_are_told_in_openmetrics(tmp_path: Path, keepers: set[int]) -> None:
    for machine in ("web1", "web2"):
        journal = Journal.of(tmp_path, machine)
        journal.tell("redis", STATE)
        assert journal.take()
    server = metrics.serve(tmp_path, 0)
    try:
        assert server.server_address[0] == "127.0.0.1"
        kind, text = asked(server.server_address[1], "application/openmetrics-text; version=1.0.0")
        assert kind.startswith("application/openmetrics-text")
        found = {
            (sample.name, sample.labels["machine"]): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert found["damoos_saved_bytes", "web1"] == found["damoos_saved_bytes", "web2"] == 30
        Journal.of(tmp_path, "web2").tell("redis", None)
        assert 'machine="web2",service="redis"' not in asked(server.server_address[1], "text/plain")[1]
        with pytest.raises(MachineError, match=r"port \d+ of 127.0.0.1: Address already in use; choose another --port"):
            metrics.serve(tmp_path, server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("headers", "is_told"),
    [
        ({"Host": "127.0.0.1:{port}"}, True),
        ({"Host": "localhost"}, True),
        ({"Host": "evil.example:{port}"}, False),
        ({"Host": "localhost.evil.example"}, False),
        ({"Host": "localhost", "Origin": "http://evil.example"}, False),
        ({"Host": "localhost", "Origin": "http://[evil"}, False),
        ({"Host": ""}, False),
    ],
)
def test_a_page_of_another_computer_is_told_nothing(
    tmp_path: Path, keepers: set[int], headers: dict[str, str], is_told: bool
) -> None:
    """Its name has been made to lead here, so that a browser takes this server for the page's own."""
    journal = Journal.of(tmp_path, "web1")
    journal.tell("redis", STATE)
    server = metrics.serve(tmp_path, 0)
    port = server.server_address[1]
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/metrics", headers={name: word.format(port=port) for name, word in headers.items()})
        answer = connection.getresponse()
        assert (answer.status, b"damoos_in_force" in answer.read()) == ((200, True) if is_told else (403, False))
        connection.close()
    finally:
        server.shutdown()
        server.server_close()


def test_a_folder_with_no_name_of_a_machine_hides_no_other(
    tmp_path: Path, keepers: set[int], capsys: pytest.CaptureFixture[str]
) -> None:
    Journal.of(tmp_path, "web1").tell("redis", STATE)
    for name in (b"\xff", b"a\nb", b"-", b"a\x1b[2J"):
        (tmp_path / "service" / os.fsdecode(name)).mkdir()
    assert {machine for _, machine in numbers(tmp_path)} == {"web1"}
    assert listing.listed(tmp_path).keys() == {"redis"}
    lines = {*capsys.readouterr().err.splitlines()}
    assert len(lines) == 4
    assert all(line.isprintable() and line.endswith("is left out; remove it") for line in lines)


def known(value: Any) -> Any:
    """Without what says nothing: the form of Grafana's own library leaves it out, or fills it in."""
    if isinstance(value, dict):
        return {key: known(one) for key, one in value.items() if one not in (None, [], {}, "", False)}
    return [known(one) for one in value] if isinstance(value, list) else value


def missing(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """What is in ours and not in theirs."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return [one for key in ours for one in missing(ours[key], theirs.get(key), f"{path}.{key}")]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        return [
            one for nth, (a, b) in enumerate(zip(ours, theirs, strict=True)) for one in missing(a, b, f"{path}[{nth}]")
        ]
    return [] if ours == theirs else [f"{path}: {ours!r} became {theirs!r}"]


def test_grafana_s_own_library_knows_each_word_of_the_dashboard() -> None:
    register_default_plugins()
    written = json.loads(metrics.GRAFANA.read_text())
    read = json.loads(json.dumps(Dashboard.from_json(written), cls=JSONEncoder))
    assert missing(known(written), known(read)) == []
    assert missing({**written, "pannels": []}, read) == [".pannels: [] became None"]


def test_the_dashboard_shows_numbers_that_there_are(tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    metrics.write(file, "there", metrics.Machine({"redis": STATE}, True, 1e9, False))
    told = set(re.findall(r"^# TYPE (\w+) gauge$", file.read_text(), re.MULTILINE))
    shown = set(re.findall(r"damoos_\w+", metrics.GRAFANA.read_text()))
    assert shown <= told
    assert {"damoos_saved_bytes", "damoos_watched", "damoos_failed"} <= shown


def test_what_nobody_knows_is_no_sample(tmp_path: Path) -> None:
    file, nan = tmp_path / "metrics.prom", float("nan")
    state = {**STATE, "watched": {"memory_pressure": nan}, "kdamond_cpu_s": float("inf")}
    metrics.write(file, "there", metrics.Machine({"redis": state}, True, 1e9, False))
    samples = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in samples if line.startswith(("damoos_watched", "damoos_policy_cpu_seconds"))] == []
    assert any(line.startswith("damoos_processes") for line in samples)


def test_a_keeper_that_ends_leaves_no_policy_in_force(tmp_path: Path) -> None:
    """Its last words are a file, which nobody writes after it."""
    file = tmp_path / "metrics.prom"
    metrics.write(file, "there", metrics.Machine({"redis": STATE}, False, 1e9, False))
    samples = [line for line in file.read_text().splitlines() if not line.startswith("#")]
    assert [line.rpartition(" ")[2] for line in samples if line.startswith("damoos_in_force")] == ["0.0"]
    assert not [line for line in samples if line.startswith(("damoos_processes", "damoos_watched"))]
