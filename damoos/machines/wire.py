"""What an agent sends, line by line: answers, and events beside them. A line that is neither ends the connection."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from damoos.common.terminal import plain
from damoos.common.unpack import objects_bytes, parsed

# The longest line: the files of a run are the most that an agent sends at once (damoos.agent.metric_files.FILES_BYTES).
LINE_BYTES = 32 << 20
# The longest first line: a hello is short.
HELLO_BYTES = 64 << 10
# What the values of a line may take once it is parsed: an answer's are a million numbers at most, and those of a part
# of a recording, of which several may wait, are a few long strings.
_ANSWER_BYTES = 96 << 20
_EVENT_BYTES = 8 << 20
# A string, a list's place for it, and what is put aside to look at the signs beside it.
_STRING_BYTES = 128
# Without its escaped signs; an open one ends with the line, so that each sign is looked at once.
_STRING = re.compile('"[^"]*"?')
_SHOWN_BYTES = 80
# Of an error's message.
_MESSAGE_CHARS = 10_000
BEAT, RECORD = "beat", "record"


@dataclass(frozen=True)
class Answer:
    """The answer to a call.

    Parameters
    ----------
    id : int
        Of the call; 0 for the hello.
    result : Any
    error : dict or None
        What the agent raised instead, for `damoos.errors.from_wire`. An exception would hold the frame that raises it,
        and with it the connection.
    """

    id: int
    result: Any = None
    error: dict[str, str] | None = None


@dataclass(frozen=True)
class Event:
    """What comes beside answers: a sign of life, or a part of a recording, as it came."""

    kind: str
    content: dict[str, Any]


def message(line: bytes) -> Answer | Event:
    """What a line says.

    Raises
    ------
    ValueError : it is no message of an agent's; the text shows how it begins
    """
    try:
        sz_bytes = _values_bytes(line.decode())
        form = parsed(line) if sz_bytes <= _ANSWER_BYTES else None
        found = _message(form) if isinstance(form, dict) else None
        if isinstance(found, Event) and sz_bytes > _EVENT_BYTES:
            found = None
    except (ValueError, MemoryError):
        found = None
    if found is None:
        raise ValueError(repr(line[:_SHOWN_BYTES])) from None
    return found


def _values_bytes(text: str) -> int:
    """What the values of a line take in Python at most; files and recordings are strings that may hold any sign."""
    bare = text.replace("\\\\", "").replace('\\"', "")
    of_strings = bare.count('"') // 2 * _STRING_BYTES
    return of_strings if of_strings > _ANSWER_BYTES else of_strings + objects_bytes(_STRING.sub("", bare))


def _message(form: dict[str, Any]) -> Answer | Event | None:
    if "event" in form:
        kind = form["event"]
        is_known = kind == RECORD or (kind == BEAT and len(form) == 1)
        return Event(kind, form) if isinstance(kind, str) and is_known else None
    if type(form.get("id")) is not int or len(form) != 2:
        return None
    if "result" in form:
        return Answer(form["id"], form["result"])
    error = form.get("error")
    if not isinstance(error, dict) or set(error) != {"type", "message"}:
        return None
    if not all(isinstance(text, str) for text in error.values()):
        return None
    text = plain(error["message"][:_MESSAGE_CHARS])
    return Answer(form["id"], error={"type": error["type"], "message": text})
