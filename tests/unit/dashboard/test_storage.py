"""What the dashboard serves: files of studies, by no link and by no name that leads elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from optuna.artifacts.exceptions import ArtifactNotFound

from damoos.dashboard.storage import Files, _note


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder with a study, beside a private folder."""
    study = tmp_path / "results" / "study"
    study.mkdir(parents=True)
    (study / "figure.png").write_text("figure")
    private = tmp_path / "private"
    private.mkdir(0o700)
    (private / "key").write_text("secret")
    return tmp_path / "results"


def names(files: Files, study: str) -> list[str]:
    return [file["filename"] for file in files.of(study)]


def test_files_of_a_study_are_served(results: Path) -> None:
    files = Files(results)
    (found,) = files.of("study")
    with files.open_reader(found["artifact_id"]) as content:
        assert (found["filename"], content.read()) == ("figure.png", b"figure")


@pytest.mark.parametrize("study", ["..", ".", "", "../private", "linked", "sweep-1-a", "service"])
def test_no_other_folder_is_listed(results: Path, study: str) -> None:
    (results.parent / "outside").write_text("secret")
    for name in ("linked", "sweep-1"):
        (results / name).symlink_to(results.parent / "private")
    (results / "service").mkdir()
    (results / "service" / "file").write_text("secret")
    assert names(Files(results), study) == []


def test_links_and_pipes_are_left_out(results: Path) -> None:
    (results / "study" / "link.png").symlink_to(results.parent / "private" / "key")

    os.mkfifo(results / "study" / "pipe.png")
    assert names(Files(results), "study") == ["figure.png"]


@pytest.mark.parametrize("what", ["folder", "file", "pipe"])
def test_what_takes_the_place_of_a_listed_file_is_not_served(results: Path, what: str) -> None:
    files = Files(results)
    (found,) = files.of("study")
    file = results / "study" / "figure.png"
    file.unlink()
    if what == "file":
        file.symlink_to(results.parent / "private" / "key")
    elif what == "pipe":
        os.mkfifo(file)
    else:
        file.parent.rmdir()
        file.parent.symlink_to(results.parent / "private")
        (results.parent / "private" / "key").rename(results.parent / "private" / "figure.png")
    with pytest.raises(ArtifactNotFound):
        files.open_reader(found["artifact_id"])


def test_a_note_of_a_result_of_another_form_says_so() -> None:
    assert _note("evil-1", {"verdict_text": ["x"]}).startswith("study 'evil-1' cannot be read: its result is none")
