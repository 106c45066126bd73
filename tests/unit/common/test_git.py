"""The commit of a tree, read without git; and git in damoos's own checkout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from damoos.common import git

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def run(tree: Path, *words: str) -> str:
    argv = ["git", "-C", str(tree), "-c", "user.name=x", "-c", "user.email=x@x", *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with one commit."""
    found = tmp_path / "tree"
    found.mkdir()
    run(found, "init", "-q", "-b", "topic/a")
    (found / "a").touch()
    run(found, "add", "-A")
    run(found, "commit", "-qm", "all")
    return found


def test_the_commit_is_that_of_git(tree: Path) -> None:
    commit = run(tree, "rev-parse", "HEAD")
    assert git.head(tree) == commit
    run(tree, "pack-refs", "--all")
    assert not (tree / ".git/refs/heads/topic/a").exists()
    assert git.head(tree) == commit
    run(tree, "checkout", "-q", "--detach")
    assert git.head(tree) == commit


@pytest.mark.parametrize(
    "words",
    [
        "",
        "x",
        "ref: refs/../../secret",
        "ref: ../secret",
        "ref: /secret",
        "ref: refs/none",
        "\xff",
        "ref: refs/heads/p",
    ],
)
def test_a_head_that_leads_elsewhere_tells_of_no_commit(tree: Path, words: str) -> None:
    (tree / "secret").write_text(COMMIT)
    os.mkfifo(tree / ".git/refs/heads/p")
    (tree / ".git/HEAD").write_bytes(words.encode("latin-1") + b"\n")
    assert git.head(tree) is None


@pytest.mark.parametrize("name", [".git/HEAD", ".git/refs/heads", ".git"])
def test_no_link_is_followed(tree: Path, name: str) -> None:
    path, elsewhere = tree / name, tree / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert git.head(tree) is None


def test_a_folder_that_is_no_repository_has_no_commit(tmp_path: Path) -> None:
    assert git.head(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n")
    assert git.head(tmp_path) is None


def test_git_starts_nothing_that_the_settings_name(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, ran = tmp_path / "program", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    run(tree, "config", "core.fsmonitor", str(program))
    (tmp_path / "settings").write_text(f"[core]\n\tfsmonitor = {program}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "settings"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))  # as a hook has it
    assert git.output(tree, "rev-parse", "HEAD") == git.head(tree)
    assert git.output(tree, "status", "--porcelain") == ""
    assert not ran.exists()
