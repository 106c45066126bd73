"""A chart: its content as a file, a Plotly figure, and what a notebook shows."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from damoos.errors import ConfigError
from damoos.report.charts import page, picture
from damoos.report.charts.content import Content
from damoos.report.tables import frame_to_csv
from damoos.store.artifacts import Artifacts

if TYPE_CHECKING:
    import plotly.graph_objects as go

FORMS = (".png", ".svg", ".html", ".csv")


@dataclass(frozen=True, repr=False)
class Chart(Content):
    """Panels under a title, to save and to show; `Content` has the parameters."""

    def save(self, path: Path | str) -> Path:
        """Write it to a file, whole or not at all; the ending says the form: .png, .svg, .html or .csv.

        Raises
        ------
        ConfigError : another ending
        StoreError : the file cannot be written
        """
        path = Path(path)
        return save(self, path.parent.resolve() / path.name)  # a link to a folder of one's own, by one's own word

    def plotly(self, theme: str = "either") -> go.Figure:
        """The chart as a Plotly figure, to look closer at; see `damoos.report.charts.page.template` for the themes."""
        return page.figure(self, theme)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """What a notebook shows: a Plotly figure where it knows Plotly, a picture elsewhere, as on a static page.

        Plotly's HTML is left out: it would come before the picture, and ask the network for Plotly.
        """
        return {**page.bundle(self), "image/png": base64.b64encode(picture.png(self)).decode()}


def check_ending(path: Path) -> None:
    """Refuse a file of another form.

    Raises
    ------
    ConfigError : none of the four endings
    """
    if path.suffix not in FORMS:
        raise ConfigError(f"{path}: unknown ending '{path.suffix}'; known: {', '.join(FORMS)}")


def save(content: Content, path: Path) -> Path:
    """Write what a chart shows to a file in a results folder, by no link; else as `Chart.save` does."""
    check_ending(path)
    return Artifacts(path.parent).write_bytes(path.name, lambda out: _fill(content, out, path.suffix))


def _fill(content: Content, out: BinaryIO, ending: str) -> None:
    if ending == ".csv":
        out.write(frame_to_csv(content.table).encode())
    elif ending == ".html":
        page.save(content, out)
    else:
        picture.save(content, out, ending[1:])
