"""The progress bar in a real kernel: what a notebook keeps of a long call when it has ended."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from damoos.testing import fleet

CELLS = (
    "import damoos",
    "study = damoos.tune(command='true', machine='fake:a', trials=2, repeats=2)",
    "study",
    "damoos.sweep(['synthetic/idle'], ['fake:a', 'fake:b'], trials=2, repeats=2, candidates=1)",
)


def test_long_calls_leave_one_filled_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = fleet.plugin(tmp_path / "plugin")
    for name in ("PYTHONPATH", fleet.SETTINGS):
        monkeypatch.setenv(name, plugin[name])
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [cell.outputs for cell in book.cells]
    assert outputs[0] == []
    (bar,) = outputs[1]  # nothing on standard error beside it: no warning, no line of text
    found = re.search(r'<progress value="(\d+)" max="(\d+)">.* (\d+) of (\d+) runs', bar.data["text/html"])
    assert found
    assert len(set(found.groups())) == 1
    assert "<h4>study true-fake-a-1</h4>" in outputs[2][0].data["text/html"]
    swept, shown = outputs[3]
    assert "2 of 2 studies, 4 of 4 trials" in swept.data["text/html"]
    assert "<h4>sweep sweep-1</h4>" in shown.data["text/html"]
