"""The metrics of a run, as a Markdown table, from their declarations."""

from __future__ import annotations

from damoos.model.metrics import METRICS, Metric


def page() -> str:
    """A row for each meaning; metrics that have one in common stand together."""
    rows: dict[Metric, list[str]] = {}
    for name, metric in METRICS.items():
        rows.setdefault(metric, []).append(f"`{name}`")
    head = ["| metric | unit | meaning |", "| --- | --- | --- |"]
    return "\n".join(
        [*head, *(f"| {_names(names, one)} | {one.unit} | {one.meaning} |" for one, names in rows.items())]
    )


def _names(names: list[str], metric: Metric) -> str:
    return ", ".join(names) + (" (*)" if metric.everywhere else "")
