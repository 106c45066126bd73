"""The reference of policies with parameters, as Markdown, from their classes."""

from __future__ import annotations

from damoos.policies.catalog import RULES
from damoos.policies.rule import RulePolicy


def page() -> str:
    """A section for each policy of the catalogue."""
    return "\n".join(line for policy in RULES.values() for line in _section(policy))


def _section(policy: type[RulePolicy]) -> list[str]:
    head = [f"## {policy.name}", "", f"{policy.description[0].upper()}{policy.description[1:]}.", ""]
    rows = [
        f"| `{name}` | `{one.default}` | `{one.range}` | {'yes' if name in policy.tuned else ''} | {one.help} |"
        for name, one in policy.parameters.items()
    ]
    if not rows:
        return [*head, f"Source: {policy.source}.", "", "It has no parameters.", ""]
    table = ["| parameter | default | range | tuned | |", "| --- | --- | --- | --- | --- |", *rows, ""]
    return [*head, f"Source: {policy.source}.", "", *table]
