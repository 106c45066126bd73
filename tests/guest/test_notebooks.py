"""Every notebook runs from its first cell to its last, on real guests; what it asserts of them holds."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from nbformat import NotebookNode

from notebooks.render import NR_AT_A_TIME, execute, notebooks


@pytest.fixture(scope="module")
def runs(
    guest_image: None, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Path, Future[NotebookNode]]]:
    """Those that are asked for, as many at a time as there are cores; the fifth takes longest and goes first."""
    asked = [item.callspec.params["notebook"] for item in request.session.items if item.path == request.path]
    asked.sort(key=lambda one: not one.stem.startswith("5"))
    with ThreadPoolExecutor(NR_AT_A_TIME) as pool:
        yield {one: pool.submit(execute, one, tmp_path_factory.mktemp(one.stem)) for one in asked}
        pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("notebook", notebooks(), ids=lambda one: one.stem)
def test_a_notebook_runs(runs: dict[Path, Future[NotebookNode]], notebook: Path) -> None:
    done = runs[notebook].result()
    shown = [output for cell in done.cells for output in cell.get("outputs", ()) if "data" in output]
    assert any("image/png" in output.data for output in shown)
    # What no script can show must be there, too: the rendered pages have pictures and text.
    assert all({"image/png", "text/plain"} & set(output.data) for output in shown)
    warned = [
        output.text for cell in done.cells for output in cell.get("outputs", ()) if output.get("name") == "stderr"
    ]
    assert not [text for text in warned if "Warning" in text]
