"""The policies that have a name and parameters; others join by the entry point ``damoos.policies``."""

from __future__ import annotations

import functools
from contextlib import nullcontext
from importlib.metadata import entry_points

from damoos.common import plugins
from damoos.errors import ConfigError, PluginError
from damoos.policies.dama import DamaPolicy
from damoos.policies.damon_lru_sort import DamonLruSortPolicy
from damoos.policies.damon_reclaim import DamonReclaimPolicy
from damoos.policies.damos_psi import DamosPsiPolicy
from damoos.policies.gswap import GswapPolicy
from damoos.policies.memory_high import MemoryHighPolicy
from damoos.policies.mglru import MglruPolicy
from damoos.policies.oomd import OomdPolicy
from damoos.policies.rule import RulePolicy
from damoos.policies.senpai import SenpaiPolicy
from damoos.policies.senpai_high import SenpaiHighPolicy
from damoos.policies.swappiness import SwappinessPolicy
from damoos.policies.thp import ThpModePolicy
from damoos.policies.tiers.autonuma import AutonumaPolicy
from damoos.policies.tiers.bounds import AllFastPolicy, AllSlowPolicy
from damoos.policies.tiers.damon_tiers import DamonTiersPolicy
from damoos.policies.tiers.interleave import InterleavePolicy
from damoos.policies.tiers.kloc_files import KlocFilesPolicy
from damoos.policies.tiers.naive import NaivePolicy
from damoos.policies.tiers.senpai_tiers import SenpaiTiersPolicy
from damoos.policies.tiers.tpp import TppPolicy
from damoos.policies.zswap_shrinker import ZswapShrinkerPolicy

RULES: dict[str, type[RulePolicy]] = {
    rule.name: rule
    for rule in (
        SenpaiPolicy, SenpaiHighPolicy, OomdPolicy, GswapPolicy, DamonReclaimPolicy, DamaPolicy, DamosPsiPolicy,
        DamonLruSortPolicy, MglruPolicy, ZswapShrinkerPolicy, SwappinessPolicy, MemoryHighPolicy, ThpModePolicy,
        AllFastPolicy, AllSlowPolicy, NaivePolicy, InterleavePolicy, AutonumaPolicy, TppPolicy, DamonTiersPolicy,
        KlocFilesPolicy, SenpaiTiersPolicy,
    )
}  # fmt: skip


def names() -> list[str]:
    """Names of all policies with parameters, those of plugins included."""
    return [*RULES, *_of_plugins()]


@functools.cache
def _of_plugins() -> tuple[str, ...]:
    """To look through all installed packages takes 5 ms, and each study of a list asks."""
    return tuple(sorted(point.name for point in entry_points(group="damoos.policies") if point.name not in RULES))


def general() -> list[str]:
    """Names of those that need no tiers of memory: what ``any`` stands for.

    Raises
    ------
    PluginError : one of a plugin fails
    """
    return [name for name in names() if not rule(name).of_tiers]


def is_rule(text: str) -> bool:
    """Whether a text such as ``senpai:ratio=1%`` begins with the name of one."""
    return text.partition(":")[0] in names()


def rule(name: str) -> type[RulePolicy]:
    """A policy by its name.

    Raises
    ------
    ConfigError : there is none; the nearest is named
    PluginError : one of a plugin that fails
    """
    found = plugins.find("policies", name, RULES)
    if not isinstance(found, type) or not issubclass(found, RulePolicy):
        what = plugins.described("policies", name)
        raise PluginError(f"{what}: expected a subclass of damoos.policies.rule.RulePolicy, got {found!r}")
    return found


def parse(text: str) -> RulePolicy:
    """A policy as people write it: ``senpai``, ``senpai:ratio=0.5%:interval=2s``.

    Raises
    ------
    ConfigError : no such policy or parameter, or a value that it cannot have
    """
    name, _, words = text.partition(":")
    found = rule(name)
    try:
        with plugins.guarded(plugins.described("policies", name)) if name not in RULES else nullcontext():
            return found.parse(words)
    except ConfigError as error:
        raise type(error)(f"{text}: {error}") from None
