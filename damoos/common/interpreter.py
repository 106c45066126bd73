"""Python processes that damoos starts: none looks for modules in the current folder, where other users may put some."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

_VARIABLE = "PYTHONSAFEPATH"
# Python takes any text as a yes. By this one damoos tells its own from what the user has set.
_OWN = "damoos"
SAFE_PATH = {_VARIABLE: _OWN}
"""Has a Python process and its children never look for modules in the current folder."""


def module(name: str, *words: str) -> list[str]:
    """The command that runs a module of an installed package, with arguments."""
    return [sys.executable, "-P", "-m", name, *words]


def outside() -> dict[str, str]:
    """The environment for programs of users, whose Python finds modules beside its script as it does from a shell."""
    return {name: value for name, value in os.environ.items() if (name, value) != (_VARIABLE, _OWN)}


@contextmanager
def process_pool() -> Iterator[ProcessPoolExecutor]:
    """A process for each CPU, started as new Pythons: this one may have threads already, which a fork would break."""
    before = os.environ.get(_VARIABLE)
    os.environ.update(SAFE_PATH)
    try:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
            yield pool
    finally:
        del os.environ[_VARIABLE]
        if before is not None:
            os.environ[_VARIABLE] = before
