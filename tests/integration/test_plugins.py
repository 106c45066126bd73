"""A scaffolded plugin: pip installs its package, it passes its contract, and it is used by its short name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import damoos


def pip_install(package: Path, into: Path) -> None:
    # Offline: the build backend is damoos's own, and damoos is installed already.
    words = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--target", into, package]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True, timeout=120)


@pytest.mark.parametrize("kind", ["scorer", "searcher"])
def test_a_new_plugin_installs_passes_its_contract_and_is_used(kind: str, tmp_path: Path) -> None:
    made = damoos("plugin", "new", kind, "my_own", "--into", tmp_path)
    assert made.returncode == 0, made.stderr
    package, site = Path(made.stdout.strip()), tmp_path / "site"
    pip_install(package, site)
    env = {**os.environ, "PYTHONPATH": str(site)}

    suite = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", package]
    tested = subprocess.run(suite, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert tested.returncode == 0, tested.stdout
    assert " passed" in tested.stdout

    # A study finds it, on the machine that is not there; without the package it is an unknown word.
    words = {"scorer": ("score", "--score"), "searcher": ("searcher", "--searcher")}[kind]
    script = (
        "import sys, pathlib; from damoos import api; from damoos.machines import catalog\n"
        "from damoos.testing.fake import FakeMachine; catalog.machine = lambda name, kernel=None: FakeMachine()\n"
        f"api.tune(command='true', trials=4, results=pathlib.Path(sys.argv[1]), {words[0]}='my_own')\n"
    )
    used = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "results"], env=env, capture_output=True, text=True, check=False
    )
    assert used.returncode == 0, used.stderr
    listed = damoos("studies", "--results", tmp_path / "results", env=env)
    assert "done" in listed.stdout
    unknown = damoos("tune", "--command", "true", words[1], "my_own", "--results", tmp_path)
    assert (unknown.returncode, f"unknown {kind} 'my_own'" in unknown.stderr) == (2, True)


def test_names_that_cannot_be(tmp_path: Path) -> None:
    for words, message in (
        (("scorrer", "a"), "unknown kind of plugin 'scorrer'; did you mean 'scorer'"),
        (("scorer", "My-SLA"), "'My-SLA' is not a valid plugin name"),
    ):
        done = damoos("plugin", "new", *words, "--into", tmp_path)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert damoos("plugin", "new", "scorer", "twice", "--into", tmp_path).returncode == 0
    done = damoos("plugin", "new", "scorer", "twice", "--into", tmp_path)
    assert (done.returncode, "exists already" in done.stderr) == (2, True)
