"""A page as one file: templates, style, the small script, Plotly, and the figures' data; figures also as SVG and CSV.

Nothing on a page can ask the network, and no text can become a script: templates escape what they are given, and the
page's own policy lets a browser run two scripts only, known by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos import __version__
from damoos.store.artifacts import Artifacts

if TYPE_CHECKING:
    from jinja2 import Environment

    from damoos.report.charts import Chart


# Pixels above a figure's panels: for their names, where there are several.
TOP = 40


@dataclass(frozen=True)
class Figure:
    """A chart on a page.

    Parameters
    ----------
    key : str
        Name of its files, unique on the page.
    title : str
    says : str
        What there is to see, in a sentence or two.
    chart : Chart
    """

    key: str
    title: str
    says: str
    chart: Chart

    @cached_property
    def _plotly(self) -> Any:
        made = self.chart.plotly()
        spare = made.layout.margin.t - TOP
        made.update_layout(title=None, margin={"t": TOP}, height=made.layout.height - spare)  # the page has a heading
        return made

    @property
    def height(self) -> int:
        """Pixels that it takes, so that the page keeps them free until it is drawn."""
        return int(self._plotly.layout.height)

    @property
    def data(self) -> str:
        """All that Plotly needs, as JSON that can stand in a page: without a ``<`` nothing ends its element early."""
        import plotly.io

        return str(plotly.io.to_json(self._plotly, validate=False)).replace("<", "\\u003c")


def write(path: Path, template: str, figures: Sequence[Figure] = (), **context: Any) -> list[Path]:
    """Write a page, and its figures as SVG and CSV into a folder beside it.

    Parameters
    ----------
    path : Path
        ``report.html``; the figures are then in ``report-figures/``.
    template : str
        Name of a template without its endings.
    figures : sequence of Figure
    **context
        What the template asks for.

    Returns
    -------
    list of Path
        The page first.

    Raises
    ------
    StoreError : a file cannot be written
    """
    folder = path.with_name(f"{path.stem}-figures")
    by_key = {one.key: one for one in figures}
    text = render(template, figures=by_key, folder=folder.name, **context)
    written = [Artifacts(path.parent).write_text(path.name, text)]
    return written + [one.chart.save(folder / f"{one.key}.{ending}") for one in figures for ending in ("svg", "csv")]


def of_chart(chart: Chart) -> str:
    """A page of one chart, with its numbers in words."""
    figure = Figure("chart", chart.title, "", chart)
    return render("chart", figures={figure.key: figure}, heading=chart.title, lines=chart.text)


def render(template: str, **context: Any) -> str:
    """A page's text."""
    scripts = {"page": _own("page.js")}
    if context.get("figures"):
        scripts = {"plotly": _plotly(), **scripts}
    return (
        _environment()
        .get_template(f"{template}.html.j2")
        .render(
            style=_own("style.css"),
            scripts=scripts,
            policy=" ".join(f"'sha256-{_hash(one)}'" for one in scripts.values()),
            version=__version__,
            **context,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("damoos.report.html"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _own(name: str) -> str:
    return (resources.files("damoos.report.html") / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    # An end tag inside of a string of the script would end the element.
    return str(get_plotlyjs()).replace("</script", "<\\/script")


@cache
def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
