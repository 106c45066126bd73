"""Two guests never share a CPU, nor take more memory than there is. The guests here are processes that sleep."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from damoos.errors import MachineError, MachineTransientError
from damoos.machines.guest import locks, memory, place
from damoos.machines.guest.reserve import Reservation

GIB = 1 << 30
HOST = 10 * GIB
CPUS = sorted(os.sched_getaffinity(0))[:2]
pytestmark = pytest.mark.skipif(len(CPUS) < 2, reason="a host with one CPU")

# Another damoos: at a line it takes CPUs and says which, at the next it gives them back.
OTHER = """
import os, sys
from pathlib import Path
from damoos.machines.guest import reserve
os.sched_setaffinity(0, {cpus})
reserve.SAY_AFTER_S = 0.1
mine = reserve.Reservation({mem}, {vcpus}, lambda line: print(line, flush=True), Path({folder!r}), {host})
print("ready", flush=True)
while sys.stdin.readline():
    with mine.busy():
        print(*sorted(mine.cpus), flush=True)
        sys.stdin.readline()
"""


class Other:
    def __init__(self, folder: Path, vcpus: int = 1) -> None:
        code = OTHER.format(cpus=set(CPUS), mem=GIB, vcpus=vcpus, folder=str(folder), host=HOST)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.says() == "ready"

    def tell(self) -> None:
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def says(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture(autouse=True)
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CPUS)
    monkeypatch.setattr("damoos.machines.guest.reserve.SAY_AFTER_S", 0.1)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Callable[..., Other]]:
    started: list[Other] = []

    def start(vcpus: int = 1) -> Other:
        started.append(Other(tmp_path, vcpus))
        return started[-1]

    yield start
    for one in started:
        one.kill()


class Guest(Reservation):
    """A reservation with a process that inherits it as QEMU does."""

    def __init__(self, folder: Path, vcpus: int, mem: int, say: Callable[[str], None]) -> None:
        super().__init__(mem, vcpus, say, folder, HOST)
        self.qemu = subprocess.Popen(["sleep", "60"], pass_fds=(self.fd,))
        self.handed_to(self.qemu.pid)

    def runs_on(self) -> list[int]:
        return sorted(os.sched_getaffinity(self.qemu.pid))

    def kill(self) -> None:
        self.qemu.kill()
        self.qemu.wait()


@pytest.fixture
def guest(tmp_path: Path) -> Iterator[Callable[..., Guest]]:
    made: list[Guest] = []

    def make(vcpus: int = 1, mem: int = GIB, say: Callable[[str], None] = print) -> Guest:
        made.append(Guest(tmp_path, vcpus, mem, say))
        return made[-1]

    yield make
    for one in made:
        one.kill()
        one.end()


def in_background(job: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_of_three_damoos_on_two_cpus_one_waits_and_says_so(other) -> None:
    first, second, third = other(), other(), other()
    first.tell()
    second.tell()
    theirs = [first.says(), second.says()]
    assert sorted(theirs) == [str(cpu) for cpu in CPUS]
    third.tell()
    assert third.says() == "waiting until 1 CPU of this host is free of other guests"
    second.tell()
    assert third.says() == theirs[1]


def test_a_damoos_that_is_killed_leaves_its_cpus(other, guest) -> None:
    holder, mine = other(vcpus=2), guest(vcpus=2)
    holder.tell()
    assert holder.says() == " ".join(map(str, CPUS))
    holder.kill()
    with mine.busy():
        assert sorted(mine.cpus) == CPUS


def test_a_process_that_was_forked_off_keeps_no_cpu_from_the_others(tmp_path: Path) -> None:
    held = locks.try_lock(place.filled(tmp_path) / "cpu-0")
    assert held is not None
    heard, say = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(say, b"!")
        signal.pause()
    os.read(heard, 1)
    locks.unlock(held)
    again = locks.try_lock(tmp_path / "cpu-0")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert again is not None
    locks.unlock(again)


def test_who_needs_many_cpus_is_served_in_turn(guest) -> None:
    holder, many, late, said = guest(), guest(vcpus=9), guest(), threading.Event()
    many._say = lambda line: said.set()
    order: list[str] = []

    def work(one: Guest, name: str) -> None:
        with one.busy():
            order.append(f"{name}: {len(one.cpus)}")

    holder.take()
    first = in_background(lambda: work(many, "many"))
    assert said.wait(10)
    assert not many.cpus, "it must not sit on the CPU that is free"
    second = in_background(lambda: work(late, "late"))
    second.join(0.3)
    assert order == []
    holder.free()
    first.join(10)
    second.join(10)
    assert order == ["many: 2", "late: 1"]


def test_a_guest_runs_on_its_own_cpus_and_the_idle_ones_elsewhere(guest) -> None:
    idle, one, two = guest(), guest(), guest()
    with idle.busy():
        assert idle.runs_on() == sorted(idle.cpus)
        assert len(idle.cpus) == 1
    with one.busy():
        (its,) = one.cpus
        (other,) = set(CPUS) - {its}
        assert (one.runs_on(), idle.runs_on()) == ([its], [other])
        with two.busy():
            assert (one.runs_on(), two.runs_on()) == ([its], [other])
            assert idle.runs_on() == CPUS, "nothing is left, so it shares"
        assert idle.runs_on() == two.runs_on() == [other]
    assert idle.runs_on() == one.runs_on() == CPUS


def test_a_guest_has_the_same_cpu_each_time_and_not_all_have_the_first(guest) -> None:
    """Guests that do not see each other (another user's, another temporary folder) would crowd there."""
    chosen = []
    for _ in range(40):
        mine = guest(mem=1 << 20)
        taken = []
        for _ in range(2):
            with mine.busy():
                taken += mine.cpus
        assert taken[0] == taken[1]
        chosen += taken
    assert set(chosen) == set(CPUS)


def test_within_a_boot_a_call_takes_nothing_more(guest) -> None:
    mine = guest()
    mine.take()
    with mine.busy():
        held = mine.cpus
    assert mine.cpus == held
    mine.free()
    assert not mine.cpus


def test_memory_is_shared_out_up_to_nine_tenths(guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "WAIT_S", 0.1)
    monkeypatch.setattr(memory, "_POLL_S", 0.1)
    said: list[str] = []
    guest(mem=5 * GIB)
    guest(mem=4 * GIB)
    with pytest.raises(MachineTransientError, match=r"waited 0.1 s for 1.0 GiB .* others? .*9.0 GiB of 9.0"):
        guest(mem=GIB, say=said.append)
    assert said == ["waiting for 1.0 GiB of memory: other guests have 9.0 GiB of 9.0 GiB"]


def test_memory_counts_for_as_long_as_its_qemu_lives(guest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "WAIT_S", 0.0)
    gone = guest(mem=9 * GIB)
    with pytest.raises(MachineTransientError):
        guest()
    gone.kill()
    guest()
    assert len(list(tmp_path.glob("records/guest-*"))) == 1


def test_a_guest_that_can_never_fit_is_told_so_at_once(guest) -> None:
    with pytest.raises(MachineError, match=r"needs 32.0 GiB of memory, and guests on this host may have 9.0 GiB: take"):
        guest(mem=32 * GIB)


def test_where_root_has_made_no_folder_it_is_the_user_s_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container in which nobody writes to /run, say; the folders are private."""
    monkeypatch.setattr(place, "SHARED", tmp_path / "no run" / "damoos-guests")
    monkeypatch.delenv(place.OWN, raising=False)
    monkeypatch.setenv("DAMOOS_CACHE", str(tmp_path / "cache"))
    runtime = tmp_path / "runtime"
    runtime.mkdir(0o700)
    for value, parent in ((str(runtime), runtime / "damoos"), ("", tmp_path / "cache")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", value)
        mine = Reservation(GIB, 1, host_bytes=HOST)
        with mine.busy():
            folder = place.place()
        mine.end()
        assert folder.parent == parent
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    runtime.chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert place.place().parent == tmp_path / "cache"
    monkeypatch.setenv(place.OWN, str(tmp_path / "own"))
    assert place.place() == tmp_path / "own"


def test_links_of_somebodys_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "target").touch()
    (tmp_path / "gate").symlink_to("target")
    with pytest.raises(MachineError, match=r"gate: .*; remove the folder"):
        locks.try_lock(tmp_path / "gate")


def plant(folder: Path, text: str) -> int:
    """A record of somebody's, locked as a guest's is; returns its descriptor."""
    path = place.filled(folder) / place.RECORDS / "guest-planted"
    path.write_text(text)
    fd = os.open(path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


def test_a_record_that_names_a_process_of_somebody_else_s_moves_nobody(tmp_path: Path) -> None:
    """The attacker's record is idle, locked, and names a process that knows nothing of it."""
    victim = subprocess.Popen(["sleep", "60"])
    fd = plant(tmp_path, f"idle {victim.pid} {GIB}")
    try:
        assert list(memory.idle_guests(tmp_path)) == []
        holder = subprocess.Popen(["sleep", "60"], pass_fds=(fd,))
        (tmp_path / "records/guest-planted").write_text(f"idle {holder.pid} {GIB}")
        assert list(memory.idle_guests(tmp_path)) == [holder.pid]
        holder.kill()
        holder.wait()
    finally:
        os.close(fd)
        victim.kill()
        victim.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
def test_memory_that_another_user_claims_counts_as_far_as_a_process_has_it(tmp_path: Path) -> None:
    fd = plant(tmp_path, f"busy {os.getpid()} {HOST}")
    try:
        os.chown(tmp_path / "records/guest-planted", 61235, -1)
        Reservation(GIB, 1, folder=tmp_path, host_bytes=HOST).end()  # else it would wait for ten minutes
        theirs = subprocess.Popen(["sleep", "60"], user=61235)
        (tmp_path / "records/guest-planted").write_text(f"busy {theirs.pid} {HOST}")
        assert 0 < memory._alive(tmp_path / "records/guest-planted") < GIB
        theirs.kill()
        theirs.wait()
    finally:
        os.close(fd)
