"""New files to start from: they take the place of nothing, and are written through no link."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from damoos.cli import templates
from damoos.errors import ConfigError


def test_a_workload_file_is_written_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    templates.workload_file(path)
    assert "damoos tune --workload ./mine.toml" in path.read_text()
    path.write_text("kept")
    with pytest.raises(ConfigError, match=r"mine\.toml exists already; choose another name"):
        templates.workload_file(path)
    assert path.read_text() == "kept"


def test_a_link_that_leads_to_nothing_yet_is_not_followed(tmp_path: Path) -> None:
    """Another user has left it in a folder that everybody may write to."""
    (tmp_path / "mine.toml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="exists already"):
        templates.workload_file(tmp_path / "mine.toml")
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "damoos-mine").symlink_to(tmp_path / "folder")
    with pytest.raises(ConfigError, match="exists already"):
        templates.new_plugin("scorer", "mine", tmp_path)
    assert not (tmp_path / "folder").exists()


def test_a_plugin_s_folder_is_closed_to_others_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        folder = templates.new_plugin("scorer", "mine", tmp_path / "plugins")
    finally:
        os.umask(umask)
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o755
