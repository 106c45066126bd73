"""The package's own names."""

from __future__ import annotations

from pathlib import Path

import damoos


def test_every_public_name_is_there_and_known_to_type_checkers() -> None:
    stub = Path(damoos.__file__).with_suffix(".pyi").read_text()
    for name in damoos.__all__:
        assert getattr(damoos, name)
        assert f" as {name}\n" in stub or f"{name}:" in stub
