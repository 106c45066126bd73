"""What a scheme is about: an action, and the access pattern of the regions that it applies to.

References
----------
DAOS (HPDC'22) section 3.2; Documentation/admin-guide/mm/damon/usage.rst
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from damoos.errors import SchemeError, nearest

ACTIONS = (
    "willneed",
    "cold",
    "pageout",
    "hugepage",
    "nohugepage",
    "collapse",
    "lru_prio",
    "lru_deprio",
    "migrate_hot",
    "migrate_cold",
    "stat",
)
"""Every action that a kernel up to 7.3 knows; what one kernel offers is probed on the machine."""

ACTION_ALIASES = {"page_out": "pageout", "thp": "hugepage", "nothp": "nohugepage"}
"""Spellings of the DAOS paper and its slides. ``madv_*`` of the v8 patch set is handled beside them."""


def action_of(word: str) -> str:
    """Kernel's name of an action in any dialect.

    Raises
    ------
    SchemeError : no such action; the nearest valid word is named
    """
    name = ACTION_ALIASES.get(word.lower(), word.lower().removeprefix("madv_"))
    if name not in ACTIONS:
        raise SchemeError(f"unknown action '{word}'{nearest(word.lower(), [*ACTIONS, *ACTION_ALIASES])}")
    return name


@dataclass(frozen=True)
class AccessPattern:
    """What regions a scheme applies to. An upper bound of None is "max": no bound.

    Parameters
    ----------
    min_sz_bytes, max_sz_bytes : int, bytes
    min_freq, max_freq : Fraction, percent of the samples of one aggregation that saw an access, 0 to 100
    min_age_us, max_age_us : int, microseconds for which the region kept its access frequency
    """

    min_sz_bytes: int = 0
    max_sz_bytes: int | None = None
    min_freq: Fraction = Fraction(0)
    max_freq: Fraction | None = None
    min_age_us: int = 0
    max_age_us: int | None = None

    def __post_init__(self) -> None:
        """Refuse ranges that no region can be in; at most 100 percent is no bound."""
        if self.max_freq == 100:
            object.__setattr__(self, "max_freq", None)
        for what in ("sz_bytes", "freq", "age_us"):
            low, high = getattr(self, f"min_{what}"), getattr(self, f"max_{what}")
            if low < 0 or (high is not None and high < low):
                raise SchemeError(f"{what}: no value lies between {low} and {high}")
