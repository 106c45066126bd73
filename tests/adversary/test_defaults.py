"""A ``damoos.toml`` that another user has put where damoos is called, or has a chance to replace."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from damoos.cli import settings
from damoos.cli.settings import HERE
from tests.adversary.conftest import ATTACKER, PYTHON, needs_two_users

OWN = "trials = 5\n"
_BY_ATTACKER = {"user": ATTACKER, "group": ATTACKER, "extra_groups": []}


@pytest.fixture(autouse=True)
def nothing_read() -> Iterator[None]:
    settings.settings.cache_clear()
    yield
    settings.settings.cache_clear()


@pytest.fixture
def here(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: everybody's, and sticky; a home without a configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.chdir(home)
    return home


@pytest.fixture
def closed(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder of one's own."""
    (here / "closed").mkdir(0o755)
    monkeypatch.chdir(here / "closed")
    return here / "closed"


def said(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """The keys that files have set, and what is said about files that are not read."""
    keys = list(settings.settings())
    return keys, capsys.readouterr().err


Capsys = pytest.CaptureFixture[str]


def test_a_file_in_a_folder_of_one_s_own_is_read(closed: Path, capsys: Capsys) -> None:
    HERE.write_text(OWN)
    HERE.chmod(0o664)
    assert said(capsys) == (["trials"], "")


def test_a_file_in_a_folder_as_tmp_is_not_read(here: Path, capsys: Capsys) -> None:
    """A hard link to a file of one's own looks no different there, once its first name is removed."""
    HERE.write_text(OWN)
    assert said(capsys) == ([], f"damoos: {here}/damoos.toml is in a folder of other users, so it is not read\n")


@needs_two_users
def test_a_file_in_another_user_s_folder_is_not_read(closed: Path, capsys: Capsys) -> None:
    HERE.write_text(OWN)
    os.chown(closed, ATTACKER, -1)
    keys, told = said(capsys)
    assert (keys, "is in a folder of other users" in told) == ([], True)


def _link(own: Path) -> None:
    HERE.symlink_to(own)


def _hard_link(own: Path) -> None:
    HERE.hardlink_to(own)


def _open(own: Path) -> None:
    HERE.write_text(OWN)
    HERE.chmod(0o666)


def _pipe(own: Path) -> None:
    os.mkfifo(HERE)


WAYS = {_link: "is a link", _hard_link: "has a second name", _open: "is writable by every user", _pipe: "regular file"}


@pytest.mark.parametrize(("way", "why"), WAYS.items())
def test_what_may_be_another_user_s_work_is_not_read(
    closed: Path, here: Path, capsys: Capsys, way: Callable[[Path], None], why: str
) -> None:
    (here / "own.toml").write_text(OWN)
    way(here / "own.toml")
    keys, told = said(capsys)
    assert (keys, why in told, told.count("\n")) == ([], True, 1)


# Puts a link to a file of the victim's and a file of its own in each other's place as fast as it can.
_SWAPS = """
import os, sys
theirs = sys.argv[1]
open(".own", "w").write("storage = 'planted'")
print("ready", flush=True)
while True:
    os.symlink(theirs, ".link")
    os.rename(".link", "damoos.toml")
    os.link(".own", ".second")
    os.rename(".second", "damoos.toml")
"""


@needs_two_users
def test_a_file_that_changes_between_check_and_reading_is_not_read(here: Path, capsys: Capsys) -> None:
    (here / "own.toml").write_text(OWN)
    words = [PYTHON, "-S", "-c", _SWAPS, here / "own.toml"]
    with subprocess.Popen(words, cwd=here, stdout=subprocess.PIPE, text=True, **_BY_ATTACKER) as swapping:
        assert swapping.stdout
        try:
            assert swapping.stdout.readline() == "ready\n"
            for _ in range(300):
                settings.settings.cache_clear()
                assert settings.settings() == {}
        finally:
            swapping.kill()


def test_a_link_in_the_home_folder_is_followed(closed: Path, here: Path, capsys: Capsys) -> None:
    (closed / "real.toml").write_text(OWN)
    (here / "config/damoos").mkdir(parents=True)
    (here / "config/damoos/config.toml").symlink_to(closed / "real.toml")
    assert said(capsys) == (["trials"], "")


@needs_two_users
def test_a_home_folder_of_another_user_sets_nothing(closed: Path, here: Path, capsys: Capsys) -> None:
    (here / "config/damoos").mkdir(parents=True)
    (here / "config/damoos/config.toml").write_text(OWN)
    os.chown(here / "config", ATTACKER, -1)
    keys, told = said(capsys)
    assert (keys, f"lies in {here}/config, which belongs to user {ATTACKER}" in told) == ([], True)
