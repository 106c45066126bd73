"""What is shown on a terminal: letters, lines and tabs, and nothing that steers it.

Words come from target machines, from files, and from people who choose names. The command line prints through an
`Outlet`, so that nobody who prints has to think of it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

# Of signs beyond ASCII, Python knows which are to be seen: no controls, no marks that turn the direction of writing.
_UNUSUAL = re.compile(r"[^ -~\n\t]")


def plain(text: str) -> str:
    """A text of several lines as it may be shown."""
    return _UNUSUAL.sub(lambda sign: sign[0] if sign[0].isprintable() else "?", text)


def printable(value: object) -> str:
    """A value as it may be shown within a line."""
    return plain(str(value)).replace("\n", "?").replace("\t", "?")


class Outlet:
    """A text stream through which only plain text goes; whatever else is asked of it, the stream behind it answers.

    Rich, whose consoles have to steer the terminal, writes to the stream behind it, see `console`.

    Parameters
    ----------
    stream : text stream
    """

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream  # the name by which Rich looks for it

    def write(self, text: str) -> int:
        """Write a text as it may be shown."""
        if not isinstance(text, str):
            raise TypeError(f"a text stream takes text, not {type(text).__name__}")
        self.rich_proxied_file.write(plain(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write some texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """What the stream behind it has."""
        return getattr(self.rich_proxied_file, name)


def guard() -> None:
    """Have all that this process prints go through an `Outlet`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, Outlet):
            setattr(sys, name, Outlet(stream))


def guard_redirected() -> None:
    """Guard what Rich has redirected to a table that it keeps up to date: it reads codes there. Rich ends this."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(getattr(stream, "rich_proxied_file", None), Outlet):
            setattr(sys, name, Outlet(stream))


def console(**options: Any) -> Console:
    """A console of Rich's that shows words as they may be shown; only Rich's own codes steer the terminal.

    Words are no markup: ``[/x]`` is shown as it is, and no word becomes a link, whose address would reach the terminal.

    Parameters
    ----------
    **options
        As of ``rich.console.Console``.
    """
    from rich.console import Console

    class PlainConsole(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                style = segment.style and segment.style.update_link(None)
                yield segment if segment.control else segment._replace(text=plain(segment.text), style=style)

    # Named here: behind a stream that Rich redirects once more it would find the `Outlet`, which lets no codes through.
    stream = sys.stderr if options.get("stderr") else sys.stdout
    words_as_they_are: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False}
    return PlainConsole(**{"file": getattr(stream, "rich_proxied_file", stream), **words_as_they_are, **options})
