"""What an agent sends beside its answers."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any

Send = Callable[[dict[str, Any]], None]


def packed(data: bytes) -> str:
    """As JSON can have it; at the quickest level, since the workload needs the CPU.

    Trace events hardly differ from one to the next, and most pages are not accessed, so that is enough.
    """
    return base64.b64encode(zlib.compress(data, 1)).decode()
