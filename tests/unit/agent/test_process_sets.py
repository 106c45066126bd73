"""Sets of real processes of this machine; cgroups are in tests/guest/test_service.py."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from damoos.agent import cgroup, proc
from damoos.agent.process_sets import GroupProcesses, process_set
from damoos.errors import MachineError, UnsupportedError

PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def child(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program of a name that nothing else has, and its child."""
    program = tmp_path / f"prog{os.getpid()}"
    program.symlink_to("/bin/sh")
    process = subprocess.Popen(
        [program, "-c", "sleep 1000 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True
    )
    assert process.stdout
    assert process.stdout.readline()
    yield process
    os.killpg(process.pid, 9)
    process.wait()


def test_a_program_and_its_children(child: subprocess.Popen[bytes]) -> None:
    processes = process_set({"kind": "pid", "pid": child.pid})
    assert processes.pids()[0] == child.pid
    assert len(processes.pids()) == 2
    assert not processes.lasts


def test_another_process_of_the_same_id_is_let_alone(child: subprocess.Popen[bytes]) -> None:
    started = proc.start_ticks(child.pid)
    assert process_set({"kind": "pid", "pid": child.pid, "started": started}).pids()
    with pytest.raises(MachineError, match=f"process {child.pid} has ended, and another one has its id now"):
        process_set({"kind": "pid", "pid": child.pid, "started": 1})
    with pytest.raises(MachineError, match="there is no process 4194304 on this machine"):
        process_set({"kind": "pid", "pid": 4194304})


def test_a_pid_file_is_read_anew(child: subprocess.Popen[bytes], tmp_path: Path) -> None:
    file = tmp_path / "program.pid"
    with pytest.raises(MachineError, match=f"{file} holds no process id"):
        process_set({"kind": "pid_file", "path": str(file)})
    file.write_text("4194304\n")
    processes = process_set({"kind": "pid_file", "path": str(file)})
    assert processes.pids() == []
    file.write_text(f"{child.pid}\n")
    assert processes.pids()[0] == child.pid
    file.unlink()
    assert processes.pids() == []
    assert processes.lasts


@pytest.mark.parametrize("kind", ["pipe", "device", "link", "second name", "folder"])
def test_a_pid_file_may_be_anything(child: subprocess.Popen[bytes], tmp_path: Path, kind: str) -> None:
    """The account of a server may put it there, and must not hold an agent up that is root's."""
    file, another = tmp_path / "program.pid", tmp_path / "another"
    for each in (file, another):
        each.write_text(f"{child.pid}\n")
    processes = process_set({"kind": "pid_file", "path": str(file)})
    file.unlink()
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "folder":
        file.mkdir()
    elif kind == "second name":
        file.hardlink_to(another)
    else:
        file.symlink_to("/dev/zero" if kind == "device" else another)
    assert processes.pids() == []
    with pytest.raises(MachineError, match=f"{file} holds no process id"):
        process_set({"kind": "pid_file", "path": str(file)})


def test_a_pid_file_of_another_user_leads_to_that_user_s_processes_only(
    child: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "program.pid"
    file.write_text(f"{child.pid}\n")
    stranger, own = 12345, os.geteuid()
    users = dict.fromkeys(proc.descendants(child.pid), [stranger] * 4)
    whose = os.fstat

    def fstat(fd: int) -> os.stat_result:
        return os.stat_result([*whose(fd)[:4], stranger, *whose(fd)[5:]])

    monkeypatch.setattr(os, "fstat", fstat)
    monkeypatch.setattr(proc, "uids", lambda pid: users.get(pid, [own] * 4))
    processes = process_set({"kind": "pid_file", "path": str(file)})
    assert processes.pids() == list(users)
    users[list(users)[1]] = [stranger, 0, 0, 0]
    assert processes.pids() == [child.pid]
    users[child.pid] = [stranger, own, own, own]
    assert processes.pids() == []
    with pytest.raises(MachineError, match=f"is of user {stranger}, and process {child.pid} is not"):
        process_set({"kind": "pid_file", "path": str(file)})


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_a_pid_file_that_others_may_write_to_leads_to_no_process(
    child: subprocess.Popen[bytes], tmp_path: Path, mode: int
) -> None:
    file = tmp_path / "redis.pid"
    file.write_text(str(child.pid))
    processes = process_set({"kind": "pid_file", "path": str(file)})
    assert processes.pids()[0] == child.pid
    file.chmod(mode)
    assert processes.pids() == []
    with pytest.raises(MachineError, match="others than its owner may write to it"):
        process_set({"kind": "pid_file", "path": str(file)})


def test_names_match_the_kernel_s(tmp_path: Path) -> None:
    """The child of a child: what is below this process would be an agent's own, which is left out."""
    # An agent in an earlier test of this process may have made it the parent of all orphans below it.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    name = f"prog{os.getpid()}"
    program, file = tmp_path / name, tmp_path / "pid"
    shutil.copy("/bin/sleep", program)
    subprocess.run(["setsid", "--fork", "sh", "-c", f"echo $$ > {file}; exec {program} 1000"], check=True)
    while not file.exists() or not file.read_text().strip():
        time.sleep(0.01)
    pid = int(file.read_text())
    try:
        while os.readlink(f"/proc/{pid}/exe") != str(program):
            time.sleep(0.01)
        for what in ("exe", "name"):
            assert process_set({"kind": "match", "what": what, "value": name}).pids() == [pid]
        program.unlink()
        assert process_set({"kind": "match", "what": "exe", "value": name}).pids() == [pid]
    finally:
        os.kill(pid, 9)
    own = Path(os.readlink("/proc/self/exe")).name
    assert os.getpid() not in process_set({"kind": "match", "what": "exe", "value": own}).pids()


def test_a_user_is_known_by_name_or_number() -> None:
    with pytest.raises(MachineError, match="this machine has no user 'nobody-knows'"):
        process_set({"kind": "match", "what": "user", "value": "nobody-knows"})
    assert 1 in process_set({"kind": "match", "what": "user", "value": "root"}).pids()
    assert 1 in process_set({"kind": "match", "what": "user", "value": "0"}).pids()


def test_a_group_and_those_below_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroup, "CGROUPS", tmp_path)
    group = tmp_path / "system.slice/redis.service"
    processes = GroupProcesses("/system.slice/redis.service")
    assert processes.pids() == []
    assert processes.group is None
    (group / "inner").mkdir(parents=True)
    (group / "cgroup.procs").write_text("7\n8\n")
    (group / "inner/cgroup.procs").write_text("9\n")
    assert processes.pids() == [7, 8, 9]
    assert processes.group == group
    assert processes.group_path == "/system.slice/redis.service"


@pytest.mark.parametrize("path", ["/", "", "../../etc", "/system.slice/../.."])
def test_the_root_and_what_is_outside_are_no_groups(path: str) -> None:
    with pytest.raises(MachineError, match="is not the path of a cgroup below the root"):
        process_set({"kind": "cgroup", "path": path})


@pytest.mark.skipif(Path("/run/systemd/system").exists(), reason="systemd runs here")
def test_without_systemd_there_are_no_units() -> None:
    with pytest.raises(UnsupportedError, match="systemd does not run on this machine; use cgroup:, match: or pid:"):
        process_set({"kind": "unit", "name": "redis.service"})
