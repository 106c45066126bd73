"""YAML of other people: mappings, lists and scalars, of which nothing is built that is larger than the text.

YAML's aliases and merge keys let a few lines stand for gigabytes, and its tags have Python make objects. No file of
damo's has any of these, so a file with one is refused. Bounds are checked while the text is read, before values are
built.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from damoos.errors import SchemeError
from damoos.units import MOST, quoted

if TYPE_CHECKING:
    import yaml

# damo's documents have a few KiB, ten levels, and paths as their longest words.
MOST_BYTES = 256 << 10
_MOST_LEVELS = 32
_MOST_LETTERS = 4096
_SPACE = "tag:yaml.org,2002:"
# YAML 1.1, as PyYAML and damo read it.
_FLAGS = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
_OCTAL = re.compile(r"[-+]?0[0-7]+", re.ASCII)


def load(text: str) -> Any:
    """The value of a YAML text; JSON is YAML.

    Parameters
    ----------
    text : str

    Returns
    -------
    dict, list, str, int, float, bool or None
        Whose numbers are finite and have 64 bits.

    Raises
    ------
    SchemeError : it is not YAML, or has what no file of damo's has; with line and column
    """
    import yaml

    if len(text) > MOST_BYTES:  # a letter has a byte or more
        raise SchemeError(f"larger than {MOST_BYTES >> 10} KiB; a document of damo's has a few")
    try:
        return _Builder().built(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, UnicodeError) as error:
        raise SchemeError(f"neither JSON nor YAML: {' '.join(str(error).split())[:200]}") from None


class _Builder:
    """Makes the value of a text from the events of its parser, one by one: no recursion, whatever the text nests."""

    def __init__(self) -> None:
        import yaml

        self._yaml = yaml
        self._resolver = yaml.resolver.Resolver()
        # The containers that are open, and of each mapping the key whose value comes next.
        self._open: list[tuple[dict[Any, Any] | list[Any], list[Any]]] = [([], [])]

    def built(self, events: Iterator[yaml.Event]) -> Any:
        """The value of the only document; None if there is none."""
        yaml = self._yaml
        for event in events:
            if isinstance(event, yaml.AliasEvent):
                raise _error(event, f"alias '*{event.anchor}': aliases are not read; write the value out")
            if isinstance(event, yaml.ScalarEvent):
                self._add(event, self._scalar(event))
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin(event, {} if isinstance(event, yaml.MappingStartEvent) else [])
            elif isinstance(event, yaml.CollectionEndEvent):
                self._open.pop()
        documents = self._open[0][0]
        if len(documents) > 1:
            raise SchemeError("more than one YAML document; keep one")
        return documents[0] if documents else None

    def _begin(self, event: yaml.CollectionStartEvent, container: dict[Any, Any] | list[Any]) -> None:
        if event.tag is not None:
            raise _tagged(event)
        if len(self._open) > _MOST_LEVELS:
            raise _error(event, f"more than {_MOST_LEVELS} levels; a document of damo's has about ten")
        self._add(event, container)
        self._open.append((container, []))

    def _add(self, event: yaml.Event, value: Any) -> None:
        """Put a value into the container that is open."""
        container, keys = self._open[-1]
        if isinstance(container, list):
            container.append(value)
        elif keys:
            container[keys.pop()] = value
        elif isinstance(value, (dict, list)):
            raise _error(event, "a key that is a list or a mapping; a key is a word")
        elif value == "<<":
            raise _error(event, "merge key '<<': merge keys are not read; write the keys out")
        else:
            keys.append(value)

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        text = event.value
        if event.tag is not None:
            raise _tagged(event)
        if len(text) > _MOST_LETTERS:
            raise _error(event, f"{quoted(text)} is longer than {_MOST_LETTERS} letters")
        if not event.implicit[0]:  # in quotes
            return text
        kind = self._resolver.resolve(self._yaml.ScalarNode, text, (True, False)).removeprefix(_SPACE)
        try:
            return _value(kind, text)
        except ValueError as error:
            raise _error(event, str(error)) from None


def _value(kind: str, text: str) -> Any:
    """The value of a scalar without quotes.

    Parameters
    ----------
    kind : str
        Short name of YAML's tag.

    Raises
    ------
    ValueError : it is of a kind that no file of damo's has
    """
    if kind == "null":
        return None
    if kind == "bool":
        return _FLAGS[text.lower()]
    if kind in ("int", "float") and ":" in text:
        raise ValueError(f"{quoted(text)} is a number to the base 60 for YAML; write a time with its unit, as in 90s")
    if kind == "int":
        return _int(text)
    if kind == "float":
        return _float(text)
    if kind in ("str", "merge"):
        return text
    raise ValueError(f"{quoted(text)} is a {kind} for YAML; if it is a text, write it in quotes")


def _int(text: str) -> int:
    digits = text.replace("_", "")
    # 64 bits, a sign and "0b": longer ones are not computed at all.
    value = MOST + 1 if len(digits) > 67 else int(digits, 8) if _OCTAL.fullmatch(digits) else int(digits, 0)
    if abs(value) > MOST:
        raise ValueError(f"{quoted(text)} is more than {MOST}, which nothing can be")
    return value


def _float(text: str) -> float:
    plain = text.replace("_", "").lower()
    value = math.inf if plain.endswith((".inf", ".nan")) else float(plain)
    if not math.isfinite(value):
        raise ValueError(f"{quoted(text)} is not a finite number; write 'max' where there is no bound")
    return value


def _tagged(event: yaml.NodeEvent) -> SchemeError:
    return _error(event, f"tag '{event.tag}': tags are not read; write the value alone")


def _error(event: yaml.Event, message: str) -> SchemeError:
    line, column = event.start_mark.line + 1, event.start_mark.column + 1
    return SchemeError(f"line {line}, column {column}: {message}", line, column)
