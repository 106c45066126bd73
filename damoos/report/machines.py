"""A machine explained to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from damoos.doctor import Finding
from damoos.doctor.damon import idle_shares
from damoos.units import format_bytes, format_us, show_bytes


def explanation(about: dict[str, Any]) -> Iterator[str]:
    """Lines about one machine, of what `damoos.machines.explain` says."""
    yield f"{about['name']}: {about['description']}"
    for key, value in about.items():
        if key not in ("name", "description"):
            yield f"  {key.removesuffix('_bytes'):<11} {_words(key, value)}"


def _words(key: str, value: Any) -> str:
    if isinstance(value, dict):
        there = {name: _words(name, part) for name, part in value.items() if part is not None}
        return ", ".join(f"{name.removesuffix('_bytes')} {words}" for name, words in there.items()) or "-"
    if isinstance(value, list):
        return " ".join(value) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "as it is"
    return format_bytes(value) if key.endswith("_bytes") else str(value) or "-"


def findings(found: Sequence[Finding]) -> Iterator[str]:
    """One line for each finding; what there is to do comes after an arrow."""
    for finding in found:
        yield f"{finding.state:<5}  {finding.name:<12} {finding.found}{f' -> {finding.todo}' if finding.todo else ''}"


def first_look(seen: dict[str, Any]) -> Iterator[str]:
    """What `damoos.machines.base.Machine.look` has seen, as lines."""
    yield f"{seen['hostname']}: Linux {seen['kernel']}, {show_bytes(seen['mem_bytes'])}"
    yield f"DAMON: {seen['damon_in_use'] or 'nobody uses it'}"
    known = seen["damon_stat"]
    if known:
        interval = f", in intervals of {format_us(known['aggr_us'])}" if known["aggr_us"] else ""
        yield f"DAMON_STAT: runs{interval}; {idle_shares(known)}"
    elif not seen["has_damon_stat"]:
        yield "DAMON_STAT: this kernel has none (Linux 6.17 and later do), so there is nothing to see without a lease"
    elif seen["uid"] != 0:
        yield "DAMON_STAT: only root can read it; log in as root, or give [ssh] of the machine file sudo = true"
    else:
        yield "DAMON_STAT: does not run; echo Y > /sys/module/damon_stat/parameters/enabled starts it"
