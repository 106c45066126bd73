"""The pins of requirements.txt are for every Python that damoos says it runs on, and for these files only."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[3]
# As `make pins` writes them: a requirement, and its hashes, each on a line of its own.
FILES = (
    "requirements.txt",
    "machines/aws/requirements.txt",
    *(str(file.relative_to(ROOT)) for file in sorted(ROOT.glob("workloads/*/requirements.txt"))),
)
_PINNED = re.compile(r"[\w.-]+==[\w.!+]+(?: \\\n {4}--hash=sha256:[0-9a-f]{64})+\n")
_REQUIREMENT = re.compile(r"^[^\s\\]+", re.MULTILINE)
PINS = [Requirement(line) for line in _REQUIREMENT.findall((ROOT / "requirements.txt").read_text())]
MOST_BYTES = 1_000_000
# The first 3.11, Debian 12's, Debian 13's, and the newest that all pinned packages have wheels for.
PYTHONS = ("3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0")


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_a_pin_is_installed_and_admits_every_python(pin: Requirement) -> None:
    package = metadata.metadata(pin.name)
    assert str(pin.specifier) == f"=={package['Version']}"
    admitted = SpecifierSet(package["Requires-Python"] or "")
    assert [python for python in PYTHONS if python not in admitted] == []


@pytest.mark.slow
def test_nothing_that_a_pin_requires_is_missing() -> None:
    """Pins are installed without a look at what they require (Makefile)."""
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", FILES)
def test_each_pin_has_hashes_and_there_is_nothing_else(name: str) -> None:
    """No pin without a hash, and no option: pip would ask another index, say."""
    text = (ROOT / name).read_text()
    assert _PINNED.sub("", text) == ""
    assert len(text) < MOST_BYTES


def test_what_aws_needs_comes_with_hashes_only() -> None:
    """It runs on the head, which holds the cluster's token."""
    pins = [Requirement(line) for line in _REQUIREMENT.findall((ROOT / "machines/aws/requirements.txt").read_text())]
    assert "boto3" in [pin.name for pin in pins]
    for name in ("machines/aws/cluster.yaml", "docs/howto/run-on-aws.md"):
        calls = re.findall(r"pip install [^#]*?requirements\.txt|pip install .*", (ROOT / name).read_text())
        assert len(calls) == 1
        assert "--require-hashes" in calls[0]
        assert calls[0].endswith("machines/aws/requirements.txt")


def test_make_installs_nothing_from_the_index_without_hashes() -> None:
    calls = re.findall(r"pip install (?:.*\\\n)*.*", (ROOT / "Makefile").read_text())
    fetching = [call for call in calls if call.endswith(FILES) or "==" in call]
    assert len(fetching) == 2  # what damoos needs, and Spark for make test-big
    assert [call for call in fetching if "--require-hashes" not in call] == []
    assert [call for call in calls if call not in fetching and "--editable ." not in call and "uv)" not in call] == []
