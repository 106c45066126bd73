"""The notebooks as they lie in git: no outputs, public names only, and the rendered pages are of them."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

import damoos
from notebooks.render import HERE, PAGES, linked, notebooks

# Beside `damoos` itself: what packages import that `damoos plugin new` writes, what docs/searchers.md races with, and
# guests that stand for hosts, with a client for their servers.
PUBLIC = {
    "damoos",
    "damoos.bench.curves",
    "damoos.bench.searchers",
    "damoos.errors",
    "damoos.model.space",
    "damoos.model.trial",
    "damoos.scorers.base",
    "damoos.searchers.base",
    "damoos.testing.contracts",
    "damoos.testing.hosts",
    "damoos.workloads.tools",
}
each = pytest.mark.parametrize("notebook", notebooks(), ids=lambda one: one.stem)


def code(notebook: Path) -> list[str]:
    """Source of the cells that are Python."""
    cells = nbformat.read(notebook, as_version=4).cells
    return [one.source for one in cells if one.cell_type == "code" and not one.source.startswith("%%writefile")]


def names_of_damoos(tree: ast.AST) -> Iterator[tuple[str, str | None]]:
    """Modules of damoos that are imported, and names that are taken from one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.name, None) for one in node.names if one.name.partition(".")[0] == "damoos")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "damoos":
            yield from ((node.module or "", one.name) for one in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "damoos":
            yield "damoos", node.attr


def test_there_are_eight() -> None:
    assert [one.stem[0] for one in notebooks()] == list("12345678")


@each
def test_git_holds_no_outputs(notebook: Path) -> None:
    found = nbformat.read(notebook, as_version=4)
    nbformat.validate(found)
    for cell in found.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
    assert set(found.metadata) <= {"kernelspec", "language_info"}


@each
def test_only_public_names_are_used(notebook: Path) -> None:
    used = {pair for source in code(notebook) for pair in names_of_damoos(ast.parse(source))}
    assert any(module == "damoos" or name for module, name in used)
    for module, name in used:
        assert module in PUBLIC, f"{module} is not public"
        if name:
            assert not name.startswith("_")
            assert module != "damoos" or name in damoos.__all__
            assert hasattr(importlib.import_module(module), name)


@each
def test_a_reader_sees_what_must_hold(notebook: Path) -> None:
    assert sum(source.count("assert ") for source in code(notebook)) >= 2


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda one: one.stem)
def test_a_rendered_page_is_of_its_notebook(page: Path) -> None:
    """Each cell is on its page: make notebooks."""
    text = page.read_text()
    notebook = HERE / f"{page.stem}.ipynb"
    for cell in nbformat.read(notebook, as_version=4).cells:
        parts = [cell.source] if cell.cell_type == "code" else linked(cell.source).split("\n\n")
        assert all(part in text for part in parts)


def test_pictures_are_small() -> None:
    files = [one for one in PAGES.rglob("*") if one.is_file()]
    assert all(one.stat().st_size < 200_000 for one in files)
    assert sum(one.stat().st_size for one in files) < 1_500_000
