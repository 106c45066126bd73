"""Which memory of the regions that a scheme matches it leaves out, or takes."""

from __future__ import annotations

from dataclasses import dataclass

from damoos.damon.words import BYTES, FLAG, NUMBER, TEXT, Table, Word
from damoos.errors import SchemeError, nearest

# Judged page by page by the operations set, and region by region by DAMON's core.
OPS_TYPES = ("anon", "active", "memcg", "young", "hugepage_size", "unmapped")
CORE_TYPES = ("addr", "target")
FILTER_TYPES = (*OPS_TYPES, *CORE_TYPES)
# In place of a group's path: the group of the process that the schemes are put on, which is not known beforehand.
WORKLOAD_GROUP = "@workload"


@dataclass(frozen=True)
class Filter:
    """What memory a scheme leaves out or takes: that which matches the type, or does not if ``matching`` is False.

    The first filter that memory falls under decides.

    Parameters
    ----------
    type : {"anon", "active", "memcg", "young", "hugepage_size", "unmapped", "addr", "target"}
    matching : bool
    allow : bool
        Whether the memory is taken (since Linux 6.14) or left out.
    memcg_path : str
        Of type memcg: the group's path, or `WORKLOAD_GROUP`.
    addr_start, addr_end : int
        Of type addr: the range, its end excluded.
    nid : int or None
        Of type addr: a memory node, whose memory is the range; where that lies is known to the machine.
    min_sz_bytes, max_sz_bytes : int, bytes
        Of type hugepage_size: the sizes, both ends included.
    target_idx : int
        Of type target: which of DAMON's targets.
    """

    type: str
    matching: bool = True
    allow: bool = False
    memcg_path: str = ""
    addr_start: int = 0
    addr_end: int = 0
    min_sz_bytes: int = 0
    max_sz_bytes: int = 0
    target_idx: int = 0
    nid: int | None = None

    def __post_init__(self) -> None:
        """Refuse a type that no kernel has, and one without what it is about."""
        if self.type not in FILTER_TYPES:
            raise SchemeError(f"unknown filter type '{self.type}'{nearest(self.type, FILTER_TYPES)}")
        if self.type == "memcg" and not self.memcg_path:
            raise SchemeError("a memcg filter needs memcg_path, the path of a group")
        if self.type == "addr" and self.nid is None and not self.addr_start < self.addr_end:
            raise SchemeError("an addr filter needs addr_start < addr_end, or nid, the number of a memory node")
        if self.type == "hugepage_size" and not 0 < self.max_sz_bytes >= self.min_sz_bytes:
            raise SchemeError("a hugepage_size filter needs min_sz <= max_sz")


FILTER_WORDS: Table = {
    "type": Word("type", TEXT),
    "matching": Word("matching", FLAG),
    "allow": Word("allow", FLAG),
    "memcg_path": Word("memcg_path", TEXT),
    "addr_start": Word("addr_start", NUMBER),
    "addr_end": Word("addr_end", NUMBER),
    "min_sz": Word("min_sz_bytes", BYTES),
    "max_sz": Word("max_sz_bytes", BYTES),
    "target_idx": Word("target_idx", NUMBER),
    "nid": Word("nid", NUMBER),
}
