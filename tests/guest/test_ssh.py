"""The agent over real SSH on loopback, as any host of a user's is reached: the host here is a guest's sshd."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from damoos.dispatch.run import run_once
from damoos.errors import (
    CommandError,
    ConfigError,
    MachineBusy,
    MachineError,
    MachineLost,
    MachineTransientError,
    WorkloadError,
)
from damoos.machines.guest import GuestSession
from damoos.machines.ssh import SshEndpoint, SshMachine, SshSession
from damoos.policies.base import NonePolicy
from damoos.workloads.base import Program, ProgramWorkload, Tuning
from tests.conftest import agent_pid, open_guest, shell


@pytest.fixture(scope="module")
def host(guest_image: None) -> Iterator[GuestSession]:
    """A host with an sshd; its own agent has gone, so that others can work there."""
    session = open_guest()
    session.expose()
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
    assert measurement.metric("runtime_s") >= 1.2
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
    pid = agent_pid(host)
    threading.Timer(2.0, shell, (host, f"kill -9 {pid}")).start()
    with pytest.raises(MachineLost):
        run_once(session, place, program("sleep", "31.4159"), NonePolicy(), 60)
    session.close()
    deadline = time.monotonic() + 120
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
    with pytest.raises(ConfigError, match=r"key .* is not there"):
        SshSession(host.endpoint.model_copy(update={"key": str(tmp_path / "no key")}))
    with pytest.raises(ConfigError, match="no such host name"):
        SshSession(host.endpoint.model_copy(update={"host": "no-such-host.invalid"}))


def test_an_agent_that_cannot_start_is_no_lost_machine(host: GuestSession) -> None:
    """It would not start the next time either, so nobody is to try again."""
    with pytest.raises(CommandError, match=r"ended with 127: .*not found; install python9 there"):
        SshSession(host.endpoint.model_copy(update={"python": "python9"}))
    with pytest.raises(CommandError, match=r"sudo.* ended with 127: .*; install sudo there"):
        SshSession(host.endpoint.model_copy(update={"sudo": True}))
    with put(host, "/usr/bin/sudo", "#!/bin/sh\necho 'sudo: a password is required' >&2; exit 1\n"):
        with pytest.raises(CommandError, match=r"a password is required; let root run it .*NOPASSWD") as caught:
            SshSession(host.endpoint.model_copy(update={"sudo": True}))
        assert not isinstance(caught.value, MachineTransientError)
        assert caught.value.exit_code == 3


def test_sudo_gets_words_and_no_shell_string(host: GuestSession) -> None:
    with put(host, "/usr/bin/sudo", '#!/bin/sh\nprintf "%s\\n" "$@" > /tmp/words; shift; exec "$@"\n'):
        session = SshSession(host.endpoint.model_copy(update={"sudo": True}))
        session.close()
    words = shell(host, "cat /tmp/words; rm /tmp/words").splitlines()
    assert words[:3] == ["-n", "python3", "-S"]
    assert words[3].endswith(".pyz")
    assert words[4] == "60.0"


def test_what_the_host_refuses_is_no_lost_machine(session: SshSession, host: GuestSession, tmp_path: Path) -> None:
    """A disk that is full stays full; the connection holds."""
    (tmp_path / "file").write_text("content that is copied")
    shell(host, "mount -t tmpfs -o ro none /root/.cache/damoos/sent")
    try:
        with pytest.raises(MachineError, match="copying file") as caught:
            session.copy(tmp_path / "file")
        assert not isinstance(caught.value, MachineTransientError)
    finally:
        shell(host, "umount /root/.cache/damoos/sent")


def test_the_keys_of_the_users_agent_are_offered(host: GuestSession, monkeypatch: pytest.MonkeyPatch) -> None:
    words = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(SSH_\w+)=([^;]+);", words))
    try:
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        subprocess.run(["ssh-add", "-q", str(host.endpoint.key)], check=True)
        SshSession(host.endpoint.model_copy(update={"key": None})).close()
    finally:
        os.kill(int(found["SSH_AGENT_PID"]), signal.SIGTERM)


def through_itself(host: GuestSession, known: Path, jump_is_known: bool = True) -> SshEndpoint:
    """The guest's sshd, as it is seen from inside, reached through the guest."""
    where, kind, key = Path(host.endpoint.known_hosts).read_text().split()
    known.write_text(f"127.0.0.1 {kind} {key}\n" + (f"{where} {kind} {key}\n" if jump_is_known else ""))
    jump = f"root@127.0.0.1:{host.endpoint.port}"
    return host.endpoint.model_copy(update={"port": 22, "known_hosts": str(known), "jump": jump})


def test_a_host_behind_another(host: GuestSession, tmp_path: Path) -> None:
    place = SshMachine("behind", "a host", through_itself(host, tmp_path / "known"))
    session = place.open()
    assert session.connection.gateway
    seen = session.connection.run("echo $SSH_CLIENT", hide=True, in_stream=False).stdout.split()
    assert seen[0] == "127.0.0.1"  # from inside; the host's own connections come from 10.0.2.2
    measurement, _ = run_once(session, place, program("sleep", "0.5"), NonePolicy(), 10)
    assert measurement.metric("runtime_s") >= 0.5
    gateway = session.connection.gateway
    session.close()
    assert not gateway.is_connected


def test_both_hosts_keys_are_checked(host: GuestSession, tmp_path: Path) -> None:
    unknown = through_itself(host, tmp_path / "one", jump_is_known=False)
    with pytest.raises(ConfigError, match=rf"^root@127.0.0.1:{host.endpoint.port}: its host key is not in"):
        SshSession(unknown)
    known = through_itself(host, tmp_path / "two")
    (tmp_path / "two").write_text((tmp_path / "two").read_text().splitlines()[1] + "\n")
    with pytest.raises(ConfigError, match=r"^root@127.0.0.1:22 through root@.*: its host key is not in"):
        SshSession(known)


def test_nobody_answers_behind_the_jump_host(host: GuestSession, tmp_path: Path) -> None:
    there = through_itself(host, tmp_path / "known")
    with pytest.raises(MachineTransientError, match=r"127\.0\.0\.1:23 through root@"):
        SshSession(there.model_copy(update={"port": 23}))


@contextmanager
def put(host: GuestSession, path: str, content: str) -> Iterator[None]:
    """A program in the guest for as long as it is needed."""
    host.connection.put(io.StringIO(content), path)
    shell(host, f"chmod 755 {path}")
    try:
        yield
    finally:
        shell(host, f"rm {path}")
