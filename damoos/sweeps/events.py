"""What a sweep tells those who watch it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Takes the kind of an event and its fields; `damoos.sweeps.driver.drive` says which there are.
Event = Callable[[str, dict[str, Any]], None]
