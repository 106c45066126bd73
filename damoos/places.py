"""Where things lie: data that ships with damoos, the cache of kernels and images, the results."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data(name: str) -> Path:
    """A folder of shipped data (``workloads``, ``machines``): of the checkout, or of an installed package."""
    checkout = Path(__file__).resolve().parent.parent / name
    return checkout if checkout.is_dir() else Path(sys.prefix) / "share/damoos" / name


def cache() -> Path:
    """Folder of what can be made again: ``DAMOOS_CACHE``, by default ``~/.cache/damoos``."""
    return Path(os.environ.get("DAMOOS_CACHE") or Path.home() / ".cache/damoos")
