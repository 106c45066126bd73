"""The agent over real SSH on loopback, as any host of a user's is reached: the host here is a guest's sshd."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.errors import ConfigError, MachineBusy, MachineLost, MachineTransientError, WorkloadError
from damoos.machines.guest import GuestSession
from damoos.machines.ssh import SshMachine, SshSession
from damoos.policies.base import NonePolicy
from damoos.runner import run_once
from damoos.workloads.base import Program, ProgramWorkload, Tuning
from tests.conftest import open_guest, shell


@pytest.fixture(scope="module")
def host(guest_image: None) -> Iterator[GuestSession]:
    """A host with an sshd; its own agent has gone, so that others can work there."""
    session = open_guest()
    session.agent.close()
    yield session
    session.close()


@pytest.fixture
def place(host: GuestSession) -> SshMachine:
    return SshMachine("there", "a host", host.endpoint)


@pytest.fixture
def session(place: SshMachine) -> Iterator[SshSession]:
    opened = place.open()
    yield opened
    opened.close()


def program(*argv: str) -> ProgramWorkload:
    return ProgramWorkload("program", Program(argv), Tuning())


def test_a_run_is_measured(place: SshMachine, session: SshSession) -> None:
    measurement, samples = run_once(session, place, program("sleep", "1.2"), NonePolicy(), 10)
    assert 1.2 <= measurement.metric("runtime_s") < 3
    assert measurement.metric("rss_avg_bytes") > 100_000
    assert len(samples.rows) >= 2
    assert measurement.provenance["kernel"] != os.uname().release


def test_words_never_reach_a_shell(place: SshMachine, session: SshSession, host: GuestSession) -> None:
    run_once(
        session,
        place,
        program("echo", "; touch /tmp/trap", "$(touch /tmp/trap)", "`touch /tmp/trap`"),
        NonePolicy(),
        10,
    )
    assert shell(host, "ls /tmp/trap 2>/dev/null | wc -l") == "0"


def test_a_file_is_copied_once(session: SshSession, host: GuestSession, tmp_path: Path) -> None:
    script = tmp_path / "hello $(name).sh"
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    there = session.copy(script)
    stamp = shell(host, f"stat -c %y '{there}'")
    assert session.copy(script) == there
    assert shell(host, f"stat -c %y '{there}'") == stamp
    spec = {"env": {}, "limit_s": 5, "sample_s": 0.5, "drop_caches": False, "context": None}
    assert session.agent.call("run", argv=[there], **spec)["stdout"] == "hello\n"
    script.write_text("#!/bin/sh\necho changed\n")
    assert session.copy(script) != there


def test_errors_keep_their_class_across_the_wire(place: SshMachine, session: SshSession) -> None:
    for argv, limit_s, message in (
        (["no-such-program"], 10, "cannot start 'no-such-program'"),
        (["sh", "-c", "echo why >&2; exit 3"], 10, "exit status 3: why"),
        (["sleep", "60"], 0.5, "past its limit"),
    ):
        with pytest.raises(WorkloadError, match=message):
            run_once(session, place, program(*argv), NonePolicy(), limit_s)


def test_one_agent_at_a_time(place: SshMachine, session: SshSession) -> None:
    with pytest.raises(MachineBusy, match="another damoos agent"):
        place.open()


def test_a_killed_agent_is_a_lost_machine_and_its_workload_ends(place: SshMachine, host: GuestSession) -> None:
    session = place.open()
    pid = shell(host, "pgrep -of damoos-agent")
    threading.Timer(2.0, shell, (host, f"kill -9 {pid}")).start()
    with pytest.raises(MachineLost):
        run_once(session, place, program("sleep", "31.4159"), NonePolicy(), 60)
    session.close()
    deadline = time.monotonic() + 20
    while shell(host, "pgrep -x sleep | wc -l") != "0":
        assert time.monotonic() < deadline, "the workload outlived its agent"
        time.sleep(0.2)


def test_nobody_answers(host: GuestSession) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(MachineTransientError):
            SshSession(host.endpoint.model_copy(update={"port": taken.getsockname()[1]}))


def test_a_host_without_known_key_or_login_is_refused(host: GuestSession, tmp_path: Path) -> None:
    wrong = tmp_path / "known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    where, kind, _ = Path(host.endpoint.known_hosts).read_text().split()
    other = (tmp_path / "other.pub").read_text().split()[1]
    for line, message in ((f"{where} {kind} {other}\n", "is not the one in"), ("", "is not in")):
        wrong.write_text(line)
        with pytest.raises(ConfigError, match=message):
            SshSession(host.endpoint.model_copy(update={"known_hosts": str(wrong)}))
    with pytest.raises(ConfigError, match="No such file"):
        SshSession(host.endpoint.model_copy(update={"known_hosts": str(tmp_path / "nothing")}))
    with pytest.raises(ConfigError, match="login refused"):
        SshSession(host.endpoint.model_copy(update={"key": str(tmp_path / "other")}))
