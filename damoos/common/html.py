"""Pieces of HTML for notebooks: plain elements, which light and dark themes style by themselves; text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


class Html(str):
    """Text that is HTML already."""


def escaped(value: object) -> Html:
    """Anything as HTML; what is HTML already stays as it is."""
    return value if isinstance(value, Html) else Html(escape("" if value is None else str(value)))


def code(text: str) -> Html:
    """Text to be copied, its lines and spaces kept."""
    return Html(f'<code style="white-space: pre">{escape(text)}</code>')


def pre(text: str) -> Html:
    """Text as a terminal would show it."""
    return Html(f"<pre>{escape(text)}</pre>")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """A table with a row of headings."""
    head = "".join(f'<th scope="col">{escaped(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{escaped(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def pairs(values: Mapping[str, object]) -> Html:
    """Names and values, one pair a row; those without a value are left out."""
    rows = (
        f'<tr><th scope="row">{escaped(name)}</th><td>{escaped(value)}</td></tr>'
        for name, value in values.items()
        if value not in (None, "")
    )
    return Html(f"<table><tbody>{''.join(rows)}</tbody></table>")


def folded(title: str, inside: Html) -> Html:
    """What is seen when its title is opened."""
    return Html(f"<details><summary>{escaped(title)}</summary>{inside}</details>")


def section(title: str, *parts: Html) -> Html:
    """A heading and what belongs to it."""
    return Html(f"<section><h4>{escaped(title)}</h4>{''.join(parts)}</section>")
