"""What QEMU's guests leave behind; no guest is booted here."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from damoos.machines.guest.qemu import sweep


def test_what_a_killed_damoos_left_is_swept_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    child = subprocess.Popen(["true"])
    child.wait()
    for name in (f"damoos-guest-{child.pid}-abc", f"damoos-guest-{os.getpid()}-abc", "damoos-guest-x-abc", "other"):
        (tmp_path / name).mkdir()
    sweep()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"damoos-guest-{os.getpid()}-abc", "damoos-guest-x-abc", "other"}
