"""A page as one file: templates, style, the small script, Plotly, and the data of its figures.

Nothing on a page can ask the network, and no text can become a script: templates escape what they are given, and the
page's own policy lets a browser run two scripts only, known by their hashes.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from damoos import __version__
from damoos.common.terminal import plain

if TYPE_CHECKING:
    from jinja2 import Environment


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
            policy=" ".join(f"'sha256-{_hash(script)}'" for script in scripts.values()),
            version=__version__,
            **context,
        )
    )


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("damoos.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: plain(value) if type(value) is str else value,  # and not what is markup, as scripts are
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def _own(name: str) -> str:
    return (resources.files("damoos.report.page") / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    # An end tag inside of a string of the script would end the element.
    return str(get_plotlyjs()).replace("</script", "<\\/script")


@cache
def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
