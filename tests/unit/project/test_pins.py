"""The pins of requirements.txt can be installed by every Python that damoos says it runs on."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

LINES = (Path(__file__).parents[3] / "requirements.txt").read_text().splitlines()
PINS = [Requirement(line) for line in LINES]
# The first 3.11, Debian 12's, Debian 13's, and the newest that all pinned packages have wheels for.
PYTHONS = ("3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0")


@pytest.mark.parametrize("pin", PINS, ids=lambda pin: pin.name)
def test_a_pin_is_installed_and_admits_every_python(pin: Requirement) -> None:
    package = metadata.metadata(pin.name)
    assert str(pin.specifier) == f"=={package['Version']}"
    admitted = SpecifierSet(package["Requires-Python"] or "")
    assert [python for python in PYTHONS if python not in admitted] == []


def test_nothing_that_a_pin_requires_is_missing() -> None:
    """Pins are installed without a look at what they require (Makefile)."""
    done = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
