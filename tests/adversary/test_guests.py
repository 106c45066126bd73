"""Another user of the host on which guests reserve memory and CPUs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from damoos.machines.guest import locks, memory, place
from damoos.machines.guest.qemu import sweep
from tests.adversary.conftest import ATTACKER, PYTHON, VICTIM, needs_two_users

pytestmark = needs_two_users

# Waits for a record in a folder of the attacker's, and puts a link to a file of the victim's in its place.
SWAP = """
import os, sys
folder, precious = sys.argv[1:]
print("ready", flush=True)
while sys.stdin.readline():
    for name in os.listdir(folder):
        if name.startswith("guest-"):
            os.rename(f"{folder}/{name}", f"{folder}/moved-{name}")
            os.symlink(precious, f"{folder}/{name}")
    print("swapped", flush=True)
"""


@pytest.fixture
def precious(home: Path) -> Path:
    file = home / "precious"
    file.write_text("a secret of root's, of mode 600")
    file.chmod(0o600)
    return file


@pytest.fixture
def theirs(home: Path) -> Path:
    """A folder that the attacker has made first."""
    folder = home / "theirs"
    folder.mkdir()
    os.chown(folder, ATTACKER, ATTACKER)
    folder.chmod(0o777)
    return folder


def test_a_record_whose_name_becomes_a_link_is_not_followed(
    theirs: Path, precious: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root wrote "busy" over the beginning of the file: the record was opened again by its path."""
    attacker = subprocess.Popen(
        [PYTHON, "-S", "-c", SWAP, theirs, precious], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        user=ATTACKER, cwd="/",
    )  # fmt: skip
    assert attacker.stdin
    assert attacker.stdout
    attacker.stdout.readline()
    make = memory.tempfile.mkstemp

    def made_and_swapped(**words: object) -> tuple[int, str]:
        record = make(**words)
        assert attacker.stdin
        assert attacker.stdout
        attacker.stdin.write("\n")
        attacker.stdin.flush()
        attacker.stdout.readline()
        return record

    monkeypatch.setattr(memory.tempfile, "mkstemp", made_and_swapped)
    record = memory.GuestRecord(theirs, 1 << 20)
    record.write("idle")
    (link,) = theirs.glob("guest-*")
    record.remove()
    attacker.communicate()
    assert precious.read_text() == "a secret of root's, of mode 600"
    assert link.is_symlink(), "what has its name by now is not this user's to remove"


def as_user(user: int, job: Callable[[], object]) -> str:
    """What a function returns in a process of another user, as text; the project may be where only root can read."""
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            said = str(job())
        except BaseException as error:
            said = repr(error)
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return text


@pytest.fixture
def mine(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the victim's, and nothing else that says where reservations lie."""
    folder = home / "mine"
    folder.mkdir()
    monkeypatch.setenv("DAMOOS_CACHE", str(folder))
    for name in ("XDG_RUNTIME_DIR", place.OWN):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.mark.parametrize("user", [0, VICTIM])
def test_a_folder_that_another_user_has_made_first_is_not_used(
    theirs: Path, mine: Path, user: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (place.RECORDS, *place._names()):
        (theirs / name).mkdir()
    os.chown(mine, user, -1)
    monkeypatch.setattr(place, "SHARED", theirs)
    folder = Path(as_user(user, place.place))
    assert folder.parent == mine
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o7777) == (user, 0o700)


def test_a_cache_that_all_users_may_write_to_is_refused(
    home: Path, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, "SHARED", home / "not there")
    mine.chmod(0o1777)
    assert "is writable by every user, and programs in it are run; set DAMOOS_CACHE" in as_user(VICTIM, place.place)


def test_all_users_share_the_folder_that_root_has_made(home: Path, mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody but root can make, replace or remove a lock file; records have names by chance, and are their owners'."""
    run = home / "run"
    run.mkdir(0o755)
    shared = run / "damoos-guests"
    monkeypatch.setattr(place, "SHARED", shared)
    before = os.umask(0o077)
    try:
        assert place.place() == shared
    finally:
        os.umask(before)
    assert shared.stat().st_mode & 0o7777 == 0o755
    assert (shared / place.RECORDS).stat().st_mode & 0o7777 == 0o1777
    assert {(shared / name).stat().st_mode & 0o7777 for name in place._names()} == {0o644}

    def reserved() -> object:
        assert place.place() == shared
        assert locks.try_lock(shared / place.GATE) is not None
        memory.claim(shared, 1 << 20, print)
        (record,) = (shared / place.RECORDS).iterdir()
        return record.name

    assert as_user(VICTIM, reserved).startswith("guest-")
    for change in (
        lambda: (shared / "gate").rename(shared / "gone"),
        lambda: (shared / "new").touch(),
        (shared / "memory").unlink,
        next((shared / place.RECORDS).iterdir()).unlink,
    ):
        assert as_user(ATTACKER, change).startswith(("PermissionError", "OSError")), "it can be changed"


def test_links_and_folders_of_others_are_not_swept(home: Path, precious: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their names say that their damoos is gone."""
    monkeypatch.setattr("tempfile.tempdir", str(home))
    gone = subprocess.Popen(["true"])
    gone.wait()
    kept = home / "kept"
    kept.mkdir()
    (home / f"damoos-guest-{gone.pid}-link").symlink_to(kept)
    other = home / f"damoos-guest-{gone.pid}-other"
    other.mkdir()
    os.chown(other, ATTACKER, -1)
    sweep()
    assert kept.is_dir()
    assert other.is_dir()


MAKES = """
import fcntl, os, sys
folder, kind = sys.argv[1:]
path = f"{folder}/guest-x"
if kind == "folder":
    os.mkdir(path)
elif kind == "pipe":
    os.mkfifo(path, 0o666)
else:
    open(path, "w").write(f"busy {os.getpid():10} -99999999999")
fd = os.open(path, os.O_RDWR if kind == "pipe" else os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("kind", ["folder", "pipe", "negative"])
def test_a_record_that_is_none_neither_stops_guests_nor_makes_room(theirs: Path, kind: str) -> None:
    argv = [PYTHON, "-S", "-c", MAKES, str(theirs), kind]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, user=ATTACKER, cwd="/", **pipes) as attacker:
        assert attacker.stdout.readline() == "ready\n"
        assert list(memory.idle_guests(theirs)) == []
        assert memory._alive(theirs / "guest-x") == 0
        attacker.stdin.close()
