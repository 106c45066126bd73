"""Another user in the folder of a machine's services: what stands there is done, so it must be nobody else's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from damoos.cli import app
from damoos.errors import MachineError
from damoos.service import keeper, listing
from damoos.service.journal import Journal
from damoos.service.patient import PatientJournal
from damoos.testing.rollout_fleet import spec
from tests.adversary.conftest import ATTACKER, PYTHON, needs_two_users

SPEC = spec(machine="there")


def planted(results: Path) -> Path:
    """A folder of the attacker's, complete, with a link to a file of the victim's where damoos would write."""
    folder = Journal.of(results, "there").folder
    Journal(folder).want("evil", SPEC)
    (results / "precious").write_text("kept")
    for name in ("audit.log", ".changing", "keeper.log"):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(results / "precious")
    os.chown(folder, ATTACKER, ATTACKER)
    return folder


@needs_two_users
def test_what_another_user_has_planted_is_not_kept_in_service(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=f"belongs to user {ATTACKER}"):
        PatientJournal(planted(tmp_path))


@needs_two_users
@pytest.mark.parametrize("words", [["status"], ["stop", "--all"], ["stop", "evil"]])
def test_it_is_named_and_nothing_is_written_through_its_links(tmp_path: Path, words: list[str]) -> None:
    planted(tmp_path)
    Journal.of(tmp_path, "here").tell("redis", None)
    done = CliRunner().invoke(app, [*words, "--results", str(tmp_path)])
    assert f"there belongs to user {ATTACKER}" in done.stderr
    assert "evil: " not in done.stdout
    assert (tmp_path / "precious").read_text() == "kept"


@pytest.fixture
def impostor(tmp_path: Path) -> Iterator[tuple[Journal, int]]:
    """A process of the attacker's with the words of a keeper, which has got the number of one that was killed."""
    journal = Journal.of(tmp_path, "there")
    words = [PYTHON, "-S", "-c", "print(flush=True); input()", "damoos.service.keeper", str(journal.folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, user=ATTACKER, cwd="/", **pipes) as process:
        assert process.stdout
        process.stdout.readline()
        (journal.folder / ".keeper").write_text(f"{process.pid} 1.0 1.0 0.0\n")
        yield journal, process.pid
        assert process.poll() is None, "it was sent a signal"
        process.kill()


@needs_two_users
def test_a_process_of_another_user_passes_for_no_keeper(impostor: tuple[Journal, int], tmp_path: Path) -> None:
    journal, _ = impostor
    journal.want("redis", SPEC)
    assert "lost" in listing.listed(tmp_path)["redis"]
    keeper.wake(journal, start=False)
    assert keeper.stop(tmp_path, "redis")[0] == "redis"
    assert journal.take(), "its place is free"
    journal.leave()


@needs_two_users
def test_a_keeper_s_file_of_another_user_names_none(impostor: tuple[Journal, int]) -> None:
    """Root unpacks an archive with the owners that it names."""
    journal, _ = impostor
    os.chown(journal.folder / ".keeper", ATTACKER, ATTACKER)
    assert journal.keeper_pid == 0


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = Journal.of(tmp_path, "there").folder
    folder.chmod(0o775)
    with pytest.raises(MachineError, match=r"other users may write to it.*chmod go-w"):
        Journal(folder)


@needs_two_users
def test_a_folder_in_one_of_another_user_is_refused(tmp_path: Path) -> None:
    """Its owner could put another one in its place."""
    Journal.of(tmp_path, "there")
    os.chown(tmp_path / "service", ATTACKER, ATTACKER)
    with pytest.raises(MachineError, match=f"there lies in .*/service, which belongs to user {ATTACKER}"):
        Journal.of(tmp_path, "there")


def test_a_new_folder_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        folder = Journal.of(tmp_path, "there").folder
    finally:
        os.umask(umask)
    assert folder.stat().st_mode & 0o777 == 0o755
