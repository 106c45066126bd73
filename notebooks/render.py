"""Run the notebooks and render them into docs/notebooks: Markdown, with small pictures beside it (`make notebooks`).

A notebook runs in a folder of its own, so what it writes is gone with it, and in git it has no outputs. Two run at a
time: a guest takes one core.
"""

from __future__ import annotations

import base64
import io
import re
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from nbformat import NotebookNode
from PIL import Image

HERE = Path(__file__).resolve().parent
PAGES = HERE.parent / "docs/notebooks"
CELL_LIMIT_S = 3000
NR_AT_A_TIME = 2
MAX_WIDTH, NR_COLOURS = 900, 64


def notebooks() -> list[Path]:
    """All of them, in their order."""
    return sorted(HERE.glob("*.ipynb"))


def read(notebook: Path) -> NotebookNode:
    """A notebook as it lies in git."""
    return nbformat.read(notebook, as_version=4)


def execute(found: NotebookNode, folder: Path) -> NotebookNode:
    """Run a notebook from its first cell to its last in a folder; CellExecutionError where one fails."""
    where = {"metadata": {"path": str(folder)}}
    return NotebookClient(found, timeout=CELL_LIMIT_S, kernel_name="python3", resources=where).execute()


def page(found: NotebookNode, name: str) -> tuple[str, dict[str, bytes]]:
    """An executed notebook as Markdown, and its pictures by their names."""
    for cell in found.cells:
        cell.outputs = [_still(output) for output in cell.get("outputs", ())]
    text, resources = MarkdownExporter().from_notebook_node(found, {"unique_key": name, "output_files_dir": "pictures"})
    title, rest = linked(text).lstrip().split("\n", 1)
    note = (
        f"Made of `notebooks/{name}.ipynb` by `make notebooks`, run on {datetime.now(UTC):%Y-%m-%d}; yours will differ"
        " by the noise of its runs.\n"
    )
    return f"{title}\n\n{note}{rest.rstrip()}\n", resources["outputs"]


def linked(text: str) -> str:
    """Links of a notebook as its page has them, which lies elsewhere."""
    return re.sub(r"\((\d-[a-z]+)\.ipynb\)", r"(\1.md)", text).replace("(../docs/", "(../")


def _still(output: NotebookNode) -> NotebookNode:
    """An output as a page can show it that runs no script: a small picture, a table, or text."""
    data = output.get("data")
    if data is None:
        return output
    if "image/png" in data:
        output.data = NotebookNode({"image/png": _small(data["image/png"])})
    elif "text/html" in data:
        output.data = NotebookNode({"text/html": re.sub(r"<style.*?</style>\s*", "", data["text/html"], flags=re.S)})
    return output


def _small(png: str) -> str:
    """A picture with few colours, no wider than a page."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    if picture.width > MAX_WIDTH:
        picture = picture.resize(
            (MAX_WIDTH, round(picture.height * MAX_WIDTH / picture.width)), Image.Resampling.LANCZOS
        )
    made = io.BytesIO()
    picture.quantize(NR_COLOURS).save(made, "PNG", optimize=True)
    return base64.b64encode(made.getvalue()).decode()


def render(notebook: Path) -> float:
    """Run a notebook and write its page; the seconds that it took."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        text, pictures = page(execute(read(notebook), Path(folder)), notebook.stem)
        text = text.replace(f"{folder}/", "").replace(f"{Path.home()}/", "~/")  # no paths of the computer it ran on
    PAGES.mkdir(parents=True, exist_ok=True)
    for old in (PAGES / "pictures").glob(f"{notebook.stem}_*"):
        old.unlink()
    for name, data in pictures.items():
        (PAGES / name).parent.mkdir(exist_ok=True)
        (PAGES / name).write_bytes(data)
    (PAGES / f"{notebook.stem}.md").write_text(text)
    return time.monotonic() - began


def main(words: list[str]) -> None:
    """Render those that are named, or all; one that fails does not keep the others from it."""
    chosen = [one for one in notebooks() if not words or one.stem in words]
    with ThreadPoolExecutor(NR_AT_A_TIME) as pool:
        begun = {one.stem: pool.submit(render, one) for one in chosen}
    for name, done in begun.items():
        print(f"{name}: " + (f"failed: {error}" if (error := done.exception()) else f"{done.result():.0f} s"))
    sys.exit(1 if any(done.exception() for done in begun.values()) else 0)


if __name__ == "__main__":
    main(sys.argv[1:])
