"""A running server is tuned without a restart, over SSH, as its owner would do it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.machines import catalog as machines
from damoos.machines.guest import GuestSession
from damoos.testing.hosts import host_file
from damoos.workloads.base import tool
from tests.conftest import damoos, shell

KEYS, VALUE_BYTES = 4_000, 1024


@pytest.fixture(scope="module")
def host(guest_image: None) -> Iterator[GuestSession]:
    """A host on which redis runs already; damoos's own agent there has gone."""
    guest = machines.machine("guest")
    guest.provide(("redis-server", "redis-tools"), ())
    session = guest.open()
    assert isinstance(session, GuestSession)
    session.agent.close()
    yield session
    session.close()


def test_an_idle_heavy_server_loses_half_of_its_memory_within_its_latency_limit(
    host: GuestSession, tmp_path: Path
) -> None:
    kvload = host.copy(tool("kvload"))
    shell(host, "redis-server --port 7001 --save '' --daemonize yes --dir /tmp >/dev/null")
    pid = int(shell(host, "pidof redis-server"))
    shell(host, f"{kvload} -P redis -p 7001 -f -r {KEYS} -d {VALUE_BYTES}")
    probe = Path(tmp_path / "p99")
    probe.write_text(
        "#!/bin/sh\n"
        f"{kvload} -P redis -p 7001 -r {KEYS} -h {KEYS // 10} -n 200 -i 500 | sed 's/.*\"p99_ms\": //; s/,.*//'\n"
    )
    probe.chmod(0o755)
    machine = host_file(tmp_path, "there", host)
    before_kib = int(shell(host, f"awk '/VmRSS/ {{print $2}}' /proc/{pid}/status"))
    started = shell(host, f"awk '{{print $22}}' /proc/{pid}/stat")
    done = damoos(
        "tune", "--pid", str(pid), "--machine", machine, "--metric", f"p99_ms=cmd:{host.copy(probe)}",
        "--score", "sla", "--minimize", "rss_avg_bytes", "--limit", "p99_ms<=10", "--tune", "min_age=500ms:2s",
        "--trials", "2", "--repeats", "2", "--candidates", "1", "--unit-work", "2s", "--settle", "2s",
        "--format", "json",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    tuned, baseline = (result["validation"][arm] for arm in ("tuned", "baseline"))
    assert tuned["feasible"]
    assert tuned["rss_avg_bytes"] < 0.5 * baseline["rss_avg_bytes"]
    # Nothing was restarted, and nothing of damoos's is left: no scheme, no swap, the memory back where it was.
    assert shell(host, f"awk '{{print $22}}' /proc/{pid}/stat") == started
    assert shell(host, "tail -n +2 /proc/swaps") == ""
    assert shell(host, "cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds") == "0"
    assert int(shell(host, f"awk '/VmRSS/ {{print $2}}' /proc/{pid}/status")) > 0.9 * before_kib
