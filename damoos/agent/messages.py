"""What an agent sends beside its answers."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable
from typing import Any

Send = Callable[[dict[str, Any]], None]


def json_line(message: Any) -> str:
    """One message as a line of JSON. A byte of a name that is no UTF-8 is sent as ``?``, because no reader takes it."""
    line = json.dumps(message)
    return line if "\\ud" not in line else json.dumps(_whole(message))


def _whole(value: Any) -> Any:
    """Replace lone surrogates, which `damoos.damon.files.kernel_text` makes, in every text of a message."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {_whole(name): _whole(inner) for name, inner in value.items()}
    return [_whole(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def packed(data: bytes) -> str:
    """Bytes in a form that JSON can hold, compressed at the quickest level: the workload needs the CPU.

    Trace events hardly differ from one to the next, and most pages are not accessed, so that is enough.
    """
    return base64.b64encode(zlib.compress(data, 1)).decode()
