"""What the docstrings of the package may not begin with: each says what its thing is without the one before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
OPENERS = ("The same", "Those ", "As ", "Of ")


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Lines and texts of the docstrings of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def test_a_docstring_says_what_its_thing_is() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted((ROOT / "damoos").rglob("*.py"))
        for line, text in docstrings(path)
        if text.startswith(OPENERS)
    ]
    assert not found, "\n".join(found)
