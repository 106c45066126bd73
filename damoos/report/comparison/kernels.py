"""A comparison of kernels as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from damoos.units import show_count


def text(result: Mapping[str, Any]) -> str:
    """What `damoos.comparison.kernels.KernelComparison.conduct` returns, for a terminal."""
    lines = [
        f"{result['workload']} ({result['variant']}) on {result['machine']}, {show_count(result['rounds'], 'round')}"
    ]
    if result["note"]:
        lines.append(result["note"])
    for kernel in result["kernels"]:
        lines.append(f"{kernel['name']}: Linux {kernel['release']}, {kernel['emulation']}; {kernel['scheme']}")
        if kernel["error"]:
            lines.append(f"  failed: {kernel['error']}")
        for name, value in kernel["quantities"].items():
            low, high = value["ci95"]
            lines.append(
                f"  {name:<30} {_number(name, value['mean']):>9} [{_number(name, low)}, {_number(name, high)}]"
            )
    for difference in result["differences"]:
        low, high = difference["interval"]
        unit = "" if difference["relative"] else " points"
        values = f"{difference['difference']:+.2%}{unit} [{low:+.2%}, {high:+.2%}]"
        verdict = "differs" if difference["differs"] else "cannot be told apart"
        lines.append(
            f"{difference['kernel']} against {difference['than']}: {difference['quantity']:<30} {values}  {verdict}"
        )
    return "\n".join(lines)


def _number(name: str, value: float) -> str:
    return f"{value:.3f}" if name.endswith(", s") else f"{value:.2%}"
