"""damoos as pip installs it: no checkout, no build step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import short_workload

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment with damoos's wheel, and the libraries that this one has."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    subprocess.run(["git", "clone", "-q", REPOSITORY, source], check=True)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, source], check=True)
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (wheel,) = folder.glob("damoos-*.whl")
    target = next(environment.glob("lib/python3*/site-packages"))
    subprocess.run([*pip, "--python", environment / "bin/python", "install", "--no-deps", wheel], check=True)
    (target / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin"


def test_a_workload_is_recorded_in_a_guest(guest_image: None, installed: Path, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    short = short_workload(tmp_path, manual_min_age="500ms")
    done = subprocess.run(
        [installed / "damoos", "record", "--workload", short, "--format", "json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / json.loads(done.stdout)["file"]).is_file()
    shown = subprocess.run(
        [installed / "damoos", "workloads", "show", "synthetic/idle"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "idle.pattern" in shown.stdout, shown.stderr
    where = subprocess.run(
        [installed / "python", "-c", "import damoos; print(damoos.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(installed.parent)
