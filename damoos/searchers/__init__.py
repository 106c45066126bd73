"""Searchers: where to look next and what to recommend. One file each; plugins by entry point ``damoos.searchers``."""

from __future__ import annotations

from damoos import plugins
from damoos.model.space import Space
from damoos.searchers.base import Searcher
from damoos.searchers.daos import DaosSearcher
from damoos.searchers.random import RandomSearcher

SEARCHERS = {"daos": DaosSearcher, "random": RandomSearcher}


def searcher(name: str, space: Space, nr_samples: int, seed: int) -> Searcher:
    """A searcher by its short name."""
    made: Searcher = plugins.find("searchers", name, SEARCHERS)(space, nr_samples, seed)
    return made
