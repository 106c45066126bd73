"""What a fleet would save, for people: a line for each of its workloads, and the whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_COLUMNS = ("workload", "hosts", "GiB each", "studied on", "saving [95 %]", "GiB saved [95 %]", "canary", "")


def text(found: Mapping[str, Any]) -> str:
    """A table, then the whole, and what is worth a study."""
    rows = [_COLUMNS, *map(_row, found["workloads"])]
    widths = [max(len(row[nth]) for row in rows) for nth in range(len(_COLUMNS))]
    table = [
        "  ".join(_padded(word, width, nth) for nth, (word, width) in enumerate(zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]
    return "\n".join([*table, "", *_whole(found)])


def _padded(word: str, width: int, nth: int) -> str:
    return word.ljust(width) if nth in (0, len(_COLUMNS) - 1) else word.rjust(width)


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    machines = line["measured_on"]
    return (
        line["workload"],
        f"{line['hosts']:,}",
        f"{line['memory_gib']:g}",
        f"{machines} machine{'' if machines == 1 else 's'}" if machines else "none",
        _percent(line["saving"]),
        _number(line["saved_gib"]),
        "-" if line["canary_hosts"] is None else f"{line['canary_hosts']:,}",
        "worth a study" if line["deserves_a_study"] else "",
    )


def _percent(quantity: Mapping[str, Any]) -> str:
    low, high = quantity["ci95"]
    return f"{quantity['mean']:.1%} [{100 * low:.1f}, {100 * high:.1f}]"


def _number(quantity: Mapping[str, Any]) -> str:
    low, high = quantity["ci95"]
    return f"{quantity['mean']:,.1f} [{low:,.1f}, {high:,.1f}]"


def _whole(found: Mapping[str, Any]) -> Iterator[str]:
    total, spread = found["total"], found["spread"]
    of = f"{total['hosts']:,} hosts with {total['memory_gib']:,.0f} GiB in use"
    money = f", {_number(total['saved_money'])} {total['currency']} a month" if "saved_money" in total else ""
    yield f"{of}: {_number(total['saved_gib'])} GiB saved{money}"
    between = f"{spread['workloads']:.1%} between workloads and {spread['machines']:.1%} between machines"
    yield f"Savings differ by {between} (standard deviations, estimated)."
    yield from _bakes(found["workloads"])


def _bakes(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How long a canary bakes, of the workloads that have one, for the one that takes longest."""
    canaries = [line["canary_bake_hours"] for line in lines if line["canary_hosts"] is not None]
    if not canaries:
        return
    words = []
    for rho in canaries[0]:
        hours = [one[rho] for one in canaries]
        words.append(f"{f'{max(hours)} h' if None not in hours else 'days'} for {rho}")
    yield (
        f"A canary bakes, by the correlation of its windows of 10 s with the next ones: {', '.join(words)}. If it saves"
        " nothing, or harms up to the tolerance, it goes on in 1 % of the cases or less, also if the harm comes in 5 %"
        " of the windows, one at a time."
    )
