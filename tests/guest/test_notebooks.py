"""Every notebook runs from its first cell to its last, on real guests; what it asserts of them holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from notebooks.render import execute, notebooks


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("guest_image")
@pytest.mark.parametrize("notebook", notebooks(), ids=lambda one: one.stem)
def test_a_notebook_runs(tmp_path: Path, notebook: Path) -> None:
    done = execute(notebook, tmp_path)
    outputs = [output for cell in done.cells for output in cell.get("outputs", ())]
    shown = [output.data for output in outputs if "data" in output]
    assert any("image/png" in data for data in shown)
    # A page that runs no script shows one of these.
    assert all({"image/png", "text/html", "text/plain"} & set(data) for data in shown)
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
