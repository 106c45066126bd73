"""How the site is built: ``make docs``. Warnings are errors, and nothing comes from the network."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from generate import api, reference  # noqa: E402

from damoos import __version__  # noqa: E402

project = "damoos"
version = release = __version__
copyright = "the authors of damoos"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["generate"]

# Links between pages are checked with their anchors, which are those that GitHub gives the headings.
myst_heading_anchors = 4
myst_enable_extensions = ["deflist"]

autodoc_typehints = "none"  # the docstrings say types, with units
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
default_role = "py:obj"  # a docstring's `name` is a link where that is documented
highlight_language = "none"

html_theme = "furo"
html_title = f"damoos {__version__}"
html_show_sphinx = False
html_copy_source = html_show_sourcelink = False


def _notebooks() -> str:
    """Contents of the notebooks' pages; Sphinx would complain of a pattern that fits none."""
    pages = sorted(page.stem for page in (HERE / "notebooks").glob("*.md"))
    return "\n".join(
        ["```{toctree}", ":hidden:", ":caption: Notebooks", "", *(f"notebooks/{one}" for one in pages), "```"]
    )


# On the site, the Python interface has links: autodoc takes the place of what is written into the page.
_PAGES = {"notebooks": _notebooks}


def _generate(app, docname, source) -> None:
    """Put what the code says in the place of ``<!-- generate: NAME -->``."""
    source[0] = re.sub(r"<!-- generate: (\w+) -->", lambda found: _PAGES[found[1]](), source[0])
    if docname == "reference/api":
        source[0] = reference.replaced(source[0], "api", api.page())


def _raises(app, what, name, obj, options, lines) -> None:
    """Our sections Raises have ``Error : when`` in one line; napoleon wants two."""
    for at in range(lines.index("Raises") + 2 if "Raises" in lines else len(lines), len(lines)):
        if found := re.fullmatch(r"(\w+) : (.*)", lines[at]):
            lines[at] = f"{found[1]}\n    {found[2]}"
    lines[:] = "\n".join(lines).split("\n")


def _properties(app, what, name, obj, options, lines) -> None:
    """Our properties have sentences, with colons perhaps; napoleon took what is before one for a type."""
    said = inspect.getdoc(obj) or ""
    if what == "property" and "---" not in said:
        lines[:] = said.splitlines()


def _signature(app, what, name, obj, options, signature, returns) -> tuple[str, None] | None:
    """Defaults that are objects would fill the screen: what may be left out is shown as such."""
    if what != "class" or not dataclasses.is_dataclass(obj):
        return None
    words = inspect.signature(obj).parameters.values()
    return f"({', '.join(one.name + ('' if one.default is one.empty else '=...') for one in words)})", None


def setup(app) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _generate)
    app.connect("autodoc-process-docstring", _raises, priority=100)
    app.connect("autodoc-process-docstring", _properties, priority=900)
    app.connect("autodoc-process-signature", _signature)
