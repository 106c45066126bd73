"""The script that builds damoos's own kernels; nothing is built here."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from damoos.errors import UnsupportedError

KERNEL = Path(__file__).parents[3] / "kernel"


@pytest.fixture
def build() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build", KERNEL / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_options_are_read_as_kconfig_writes_them(build: ModuleType) -> None:
    text = 'CONFIG_A=y\n# CONFIG_B is not set\n# a comment\nCONFIG_C="x"\n'
    assert build.options(text) == {"CONFIG_A": "y", "CONFIG_B": "n", "CONFIG_C": '"x"'}


@pytest.mark.parametrize("version", ["6.12", "6.1"])
def test_each_version_has_its_fragment_and_its_patch_and_a_recipe(build: ModuleType, version: str) -> None:
    (patch,) = build._patches(version)
    assert "SPDX-License-Identifier: GPL-2.0" in patch.read_text()
    for name in (*build.FRAGMENTS, version):
        lines = (KERNEL / f"fragments/{name}.config").read_text().splitlines()
        assert lines[0].startswith("# "), "a fragment begins by saying what it is for"
        assert build.options("\n".join(lines))
    assert build._recipe(version) == build._recipe(version)
    assert build._recipe("6.12") != build._recipe("6.1")


def test_every_patch_says_where_it_goes_and_why(build: ModuleType) -> None:
    table = build.tomllib.loads((KERNEL / "patches/patches.toml").read_text())["patch"]
    assert {one["file"] for one in table} == {path.name for path in (KERNEL / "patches").glob("*.patch")}
    assert all(one["from"] and one["to"] and len(one["reason"]) > 40 for one in table)


def test_the_build_names_what_is_missing(build: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "NEEDS", {"no-such-tool": "its-package", "/no/such.h": "its-headers", "sh": "dash"})
    with pytest.raises(UnsupportedError, match="apt-get install its-headers its-package"):
        build._check_needs()


def test_the_build_refuses_a_version_that_it_does_not_know() -> None:
    done = subprocess.run(
        [sys.executable, KERNEL / "build.py", "--version", "6.7"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "kernel: no kernel of version '6.7' here; did you mean '6.1'?\n"
