"""A sweep as its page needs it: results by study, totals over the fleet, and how the machines behaved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from damoos.machines import prices
from damoos.model.trial import Measurement, orientation
from damoos.report.html import shown
from damoos.report.html.shown import NUMBERS, WORDS, Cell, Table
from damoos.scorers import terms
from damoos.statistics.arms import BASELINE, MANUAL, TUNED
from damoos.statistics.limits import Standing
from damoos.study.study import EvaluationStudy, Study, open_study
from damoos.sweeps.sweep import Sweep
from damoos.units import show_count

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Totals:
    """Sums over the studies whose tuned scheme kept its limits; ``judged`` are those that validated one."""

    judged: int
    counted: int
    saved_bytes: float
    whole_bytes: float
    slowdown: float | None
    broken_tuned: int
    broken_manual: int
    models: int


class Fleet:
    """A sweep with all that its studies have come to, each read once.

    Parameters
    ----------
    sweep : Sweep
    """

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep

    @cached_property
    def studies(self) -> list[Study | EvaluationStudy]:
        """Studies that have begun, as they are now."""
        names = map(self.sweep.study_name, self.sweep.config.configs())
        return [open_study(record.freeze()) for name in names if (record := self.sweep.look(name))]

    @cached_property
    def results(self) -> dict[str, Result]:
        """Results of the finished ones, by name."""
        return {study.name: result for study in self.studies if (result := study.record.result)}

    @cached_property
    def said(self) -> Mapping[str, Any]:
        """What the driver said last: in the end, or on the way."""
        return {**self.sweep.status, **(self.sweep.result or {})}

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """A row for every study, begun or not."""
        reported = {row["study"]: row for row in self.said["studies"]}
        rows = []
        for config in self.sweep.config.configs():
            name = self.sweep.study_name(config)
            row = {"study": name, "workload": config.target, "machine": config.machine, "on": "", "error": ""}
            rows.append({**row, "state": "done" if name in self.results else "waiting", **reported.get(name, {})})
        return rows

    @cached_property
    def tuned(self) -> dict[str, Study]:
        """Studies that search and have a result, by name."""
        return {study.name: study for study in self.studies if isinstance(study, Study) and study.name in self.results}

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Studies that failed, with the reason."""
        return list(self.said.get("failures", []))

    @cached_property
    def created(self) -> str:
        """When it was begun, as ISO 8601."""
        return self.sweep.created

    @property
    def spent(self) -> tuple[float, float | None]:
        """Hours that machines were held, and USD, None where none has a price."""
        cost = prices.cost(self.sweep.status.get("spent_s", {}))
        paid = [row["usd"] for row in cost if row["usd"] is not None]
        return sum(row["hours"] for row in cost), sum(paid) if paid else None

    def totals(self) -> Totals:
        """What the tuned schemes bring together."""
        judged = [result for result in self.results.values() if {TUNED, BASELINE} <= set(result["validation"] or {})]
        kept = [result for result in judged if result["validation"][TUNED]["feasible"]]
        arms = [(result["validation"][TUNED], result["validation"][BASELINE]) for result in kept]
        slower = [value for tuned, base in arms if (value := slowdown(tuned, base)) is not None]
        manual = [result["validation"][MANUAL] for result in judged if MANUAL in result["validation"]]
        return Totals(
            judged=len(judged),
            counted=len(kept),
            saved_bytes=sum(base["rss_avg_bytes"] - tuned["rss_avg_bytes"] for tuned, base in arms),
            whole_bytes=sum(base["rss_avg_bytes"] for _, base in arms),
            slowdown=sum(slower) / len(slower) if slower else None,
            broken_tuned=sum(result["validation"][TUNED]["limits"] == Standing.BROKEN for result in judged),
            broken_manual=sum(arm["limits"] == Standing.BROKEN for arm in manual),
            models=sum(result["variant"] == "model" for result in kept),
        )


def slowdown(arm: Mapping[str, Any], base: Mapping[str, Any]) -> float | None:
    """By how much an arm is slower than the baseline of its study, as a fraction."""
    return terms.slowdown(Measurement(arm), Measurement(base)) if arm and base else None


def saving(arm: Mapping[str, Any], base: Mapping[str, Any]) -> float | None:
    """The share of the baseline's RSS that an arm saves."""
    return terms.memory_saving(Measurement(arm), Measurement(base)) if arm and base else None


def gain(result: Result) -> float | None:
    """By how much the tuned scheme's score is better than the manual one's; None where one of the two has none."""
    arms = result["validation"] or {}
    tuned, manual = (arms.get(name, {}).get("score") for name in (TUNED, MANUAL))
    if tuned is None or manual is None:
        return None
    return orientation(result["score"]["direction"]) * float(tuned - manual)


def machines(found: Fleet) -> Table:
    """Every machine: whether it was fit, how it behaved, how long it was held."""
    columns = {"machine": WORDS, "state": WORDS, "studies": NUMBERS, "failed": NUMBERS, "retries": NUMBERS}
    columns |= {"held for": NUMBERS, "USD": NUMBERS}
    named = found.said.get("machines", {})
    known = {**{name: {} for name in found.sweep.config.machines}, **named}
    # A machine of which there are several is named by its slots: i3#0, i3#1.
    names = [name for name in known if name in named or not any(slot.startswith(f"{name}#") for slot in named)]
    return Table(columns, [_machine(found, name, known[name]) for name in names], "Machines")


def _machine(found: Fleet, name: str, about: Mapping[str, Any]) -> list[Cell]:
    done = sum(1 for row in found.rows if (row["on"] or row["machine"]) == name and row["study"] in found.results)
    failed = sum(1 for failure in found.failures if failure["machine"] == name)
    cost = next((row for row in prices.cost(found.sweep.status.get("spent_s", {})) if row["machine"] == name), None)
    state = shown.word(about["error"], "bad") if about.get("error") else shown.word("fit" if about.get("fit") else None)
    return [
        shown.word(name), state, shown.count(done), shown.count(failed),
        shown.count(found.said.get("retries", {}).get(name, 0)),
        Cell(shown.duration(cost["hours"] * 3600), cost["hours"]) if cost else shown.word(None),
        Cell(f"{cost['usd']:.2f}", cost["usd"]) if cost and cost["usd"] is not None else shown.word(None),
    ]  # fmt: skip


def machines_say(found: Fleet) -> str:
    """The misbehaved ones in a sentence."""
    retries = {name: number for name, number in found.said.get("retries", {}).items() if number}
    out = {name: about["error"] for name, about in found.said.get("machines", {}).items() if about.get("error")}
    words = [f"{name} was given up ({error})" for name, error in out.items()]
    words += [
        f"runs were repeated on {name} ({show_count(number, 'time')})"
        for name, number in retries.items()
        if name not in out
    ]
    if not words:
        return "None of them misbehaved: no run had to be repeated, none was given up."
    if len(words) > 12:
        return f"{len(out)} machines were given up; runs were repeated on {len(retries)}."
    text = shown.listed(words)
    return f"{text[:1].upper()}{text[1:]}."


def provenance(found: Fleet) -> dict[str, str]:
    """What ran where, from which commit, and what was asked for."""
    results = list(found.results.values())
    entries = {
        "Sweep": found.sweep.name,
        "Begun": found.created,
        "Workloads": listed_or_counted(found.sweep.config.workloads),
        "Machines": listed_or_counted(found.sweep.config.machines),
        "Kernels": _different(result["machine"]["kernel"] for result in results),
        "Accelerators": _different(result["machine"]["accel"] for result in results),
        "damoos": _different(result["provenance"]["damoos"] for result in results),
        "Commit": _different(result["provenance"]["commit"] for result in results),
        "Trials of each": found.sweep.config.settings.get("nr_samples"),
        **{
            name.replace("_", " ").capitalize(): value
            for name, value in found.sweep.config.settings.items()
            if name != "configs"
        },
    }
    return {key: shown.said_of(value) for key, value in entries.items() if value not in (None, "", [], {})}


def listed_or_counted(names: Sequence[str]) -> str:
    """Names, or how many there are where nobody would read them."""
    return ", ".join(names) if len(names) <= 40 else f"{len(names)}, from {names[0]} to {names[-1]}"


def _different(values: Any) -> str:
    return ", ".join(sorted({str(value) for value in values if value is not None}))
