"""Searchers: where to look next and what to recommend. One file each; plugins by entry point ``damoos.searchers``."""

from __future__ import annotations

from damoos.common import plugins
from damoos.model.space import Space
from damoos.searchers.anneal import AnnealSearcher
from damoos.searchers.auto import AutoSearcher
from damoos.searchers.base import Searcher
from damoos.searchers.bayes import BayesSearcher
from damoos.searchers.daos import DaosSearcher
from damoos.searchers.grid import GridSearcher
from damoos.searchers.optuna import OptunaSearcher
from damoos.searchers.plugin import PluginSearcher
from damoos.searchers.random import RandomSearcher

SEARCHERS: dict[str, type[Searcher]] = {
    "auto": AutoSearcher,
    "daos": DaosSearcher,
    "random": RandomSearcher,
    "grid": GridSearcher,
    "anneal": AnnealSearcher,
    "bayes": BayesSearcher,
}
OPTUNA = "optuna:"


def searcher(name: str, space: Space, nr_samples: int, seed: int) -> Searcher:
    """A searcher by its short name; ``optuna:NAME`` is one of Optuna's samplers.

    Raises
    ------
    ConfigError : no such searcher
    PluginError : one of a plugin that fails
    """
    if name.startswith(OPTUNA):
        return OptunaSearcher(space, nr_samples, seed, name.removeprefix(OPTUNA))
    if name in SEARCHERS:
        return SEARCHERS[name](space, nr_samples, seed)
    own = plugins.make("searchers", name, SEARCHERS, Searcher, space, nr_samples, seed)  # type: ignore[type-abstract]
    return PluginSearcher(name, own)
