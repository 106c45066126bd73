"""The kernel's ready-made modules of DAMON, as values: what each is called and what it can be told.

References
----------
Documentation/admin-guide/mm/damon/reclaim.rst and lru_sort.rst
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from damoos.damon.words import BYTES, FLAG, NUMBER, PERMIL, TIME_MS, TIME_US, Kind, Table, Word, word_of
from damoos.errors import ConfigError, SchemeError, nearest

PARAMETERS = "sys/module/{}/parameters"


def _plain_too(kind: Kind) -> Kind:
    """A kind that also takes a bare number, in the unit of the kernel's file."""
    parse: Callable[[str], int] = kind.parse
    return Kind(lambda text: NUMBER.parse(text) if text.isdecimal() else parse(text), kind.form, kind.unit)


_KINDS = {
    "min_age": TIME_US,
    "cold_min_age": TIME_US,
    "quota_ms": TIME_MS,
    "quota_sz": BYTES,
    "quota_reset_interval_ms": TIME_MS,
    "quota_mem_pressure_us": TIME_US,
    "quota_autotune_feedback": NUMBER,
    "wmarks_interval": TIME_US,
    "wmarks_high": PERMIL,
    "wmarks_mid": PERMIL,
    "wmarks_low": PERMIL,
    "sample_interval": TIME_US,
    "aggr_interval": TIME_US,
    "min_nr_regions": NUMBER,
    "max_nr_regions": NUMBER,
    "monitor_region_start": NUMBER,
    "monitor_region_end": NUMBER,
    "addr_unit": NUMBER,
    "skip_anon": FLAG,
    "autotune_monitoring_intervals": FLAG,
    "hot_thres_access_freq": PERMIL,
    "active_mem_bp": NUMBER,
    "filter_young_pages": FLAG,
}
_COMMON = (
    "quota_ms", "quota_reset_interval_ms", "wmarks_interval", "wmarks_high", "wmarks_mid", "wmarks_low",
    "sample_interval", "aggr_interval", "min_nr_regions", "max_nr_regions", "monitor_region_start",
    "monitor_region_end", "addr_unit", "autotune_monitoring_intervals",
)  # fmt: skip
_OWN = {
    "damon_reclaim": ("min_age", "quota_sz", "quota_mem_pressure_us", "quota_autotune_feedback", "skip_anon"),
    "damon_lru_sort": ("cold_min_age", "hot_thres_access_freq", "active_mem_bp", "filter_young_pages"),
}
MODULE_WORDS: Mapping[str, Table] = {
    name: {word: Word(word, _plain_too(_KINDS[word])) for word in (*own, *_COMMON)} for name, own in _OWN.items()
}
"""Parameters of each module that can be written, by the kernel's names."""
# What a module's scheme does, and what the files of its statistics are about.
ACTIONS_OF = {"damon_reclaim": ("pageout",), "damon_lru_sort": ("lru_prio", "lru_deprio")}
STATS_OF = {
    "damon_reclaim": (("reclaim_tried_regions", "reclaimed_regions", "quota_exceeds"),),
    "damon_lru_sort": (
        ("lru_sort_tried_hot_regions", "lru_sorted_hot_regions", "hot_quota_exceeds"),
        ("lru_sort_tried_cold_regions", "lru_sorted_cold_regions", "cold_quota_exceeds"),
    ),
}


@dataclass(frozen=True)
class Module:
    """One of the kernel's modules, and what it is told; what it is not told stays as it is on the machine.

    Parameters
    ----------
    name : {"damon_reclaim", "damon_lru_sort"}
    parameters : mapping of str to int or bool
        By the kernel's names, in the kernel's units.
    """

    name: str
    parameters: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a module or a parameter that no kernel has."""
        if self.name not in MODULE_WORDS:
            raise SchemeError(f"unknown module '{self.name}'{nearest(self.name, MODULE_WORDS)}")
        for name in self.parameters:
            word_of(MODULE_WORDS[self.name], name)

    @classmethod
    def of(cls, name: str, words: Mapping[str, str]) -> Module:
        """From words of text.

        Raises
        ------
        SchemeError : it begins with the key of the word that is wrong
        """
        if name not in MODULE_WORDS:
            raise SchemeError(f"unknown module '{name}'{nearest(name, MODULE_WORDS)}")
        values = {}
        for key, text in words.items():
            word = word_of(MODULE_WORDS[name], key)
            try:
                values[key] = word.kind.parse(text)
            except ConfigError as error:
                raise SchemeError(f"{key}: {error}") from None
        return cls(name, values)

    def __str__(self) -> str:
        """A line of scheme text."""
        table = MODULE_WORDS[self.name]
        words = (f"{key}={word_of(table, key).kind.form(value)}" for key, value in self.parameters.items())
        return "  ".join(["module", self.name, *words])

    def written(self) -> dict[str, str]:
        """Values as the kernel's files take them."""
        return {name: _in_file(value) for name, value in self.parameters.items()}


def _in_file(value: int) -> str:
    return ("Y" if value else "N") if isinstance(value, bool) else str(value)
