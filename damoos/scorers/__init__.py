"""Scores: pure functions of a measurement and its baseline. One file each; plugins join by entry point."""

from __future__ import annotations

from damoos import plugins
from damoos.scorers.base import Scorer
from damoos.scorers.daos import DaosScorer

SCORERS = {"daos": DaosScorer}


def scorer(name: str) -> Scorer:
    """A scorer by its short name."""
    made: Scorer = plugins.find("scorers", name, SCORERS)()
    return made
