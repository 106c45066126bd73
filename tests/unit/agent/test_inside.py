"""Files of a folder that another user writes to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from damoos.agent.inside import open_inside
from damoos.errors import WorkloadError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "run/deep").mkdir(parents=True)
    (tmp_path / "run/deep/file").write_text("own")
    (tmp_path / "secret").write_text("kept")
    return tmp_path / "run"


def test_a_file_of_the_folder_is_read_also_through_a_link(folder: Path) -> None:
    (folder / "link").symlink_to("deep/file")
    for name in ("deep/file", "link"):
        with open_inside(folder, folder / name) as file:
            assert file.read() == b"own"


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname", "../run-other/file"])
def test_a_link_that_leads_out_is_not_followed(folder: Path, target: str) -> None:
    (folder.parent / "run-other").mkdir()
    (folder.parent / "run-other/file").touch()
    (folder / "link").symlink_to(target)
    with pytest.raises(WorkloadError, match="file 'link' leads out of the run's folder, to /"):
        open_inside(folder, folder / "link")


def test_a_link_in_the_path_leads_nowhere_either(folder: Path) -> None:
    (folder / "up").symlink_to("..")
    with pytest.raises(WorkloadError, match="leads out of the run's folder"):
        open_inside(folder, folder / "up/secret")


def test_what_is_no_file_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    for name in ("pipe", "deep"):
        with pytest.raises(WorkloadError, match=f"'{name}' in the run's folder is no regular file"):
            open_inside(folder, folder / name)
