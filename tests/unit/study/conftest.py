"""Fixtures of tests that look at a study by commands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.test_corpus import run


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A results folder of the user's own."""
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


@pytest.fixture
def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: Path
) -> Callable[..., tuple[int, str, str]]:
    """What a command ends with in this process, and what it prints."""

    def ended(*words: str) -> tuple[int, str, str]:
        code = run([*words, "--results", str(results)], monkeypatch)
        return code, *capsys.readouterr()

    return ended
