"""The parts of a score: metrics of a run against its baseline, and limits on them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from damoos.errors import ConfigError, nearest
from damoos.model.roles import ROLE_METRICS, ROLES, of_role, part
from damoos.model.trial import Measurement, Score
from damoos.units import parse_bytes, parse_us


@dataclass(frozen=True)
class Term:
    """A number derived from a run and its baseline, the metrics that it reads, and what it can be at all."""

    needs: tuple[str, ...]
    of: Callable[[Measurement, Measurement], float]
    meaning: str
    least: float = -math.inf
    most: float = math.inf


def _saving(name: str) -> Callable[[Measurement, Measurement], float]:
    return lambda run, baseline: 1 - run.metric(name) / baseline.metric(name)


def _share(name: str, per_s: float) -> Callable[[Measurement, Measurement], float]:
    return lambda run, _: run.metric(name) / per_s / run.metric("runtime_s")


def slowdown(run: Measurement, baseline: Measurement) -> float:
    """By how much a run is slower than its baseline, as a fraction."""
    return run.metric("runtime_s") / baseline.metric("runtime_s") - 1


def policy_cpu_share(run: Measurement) -> float:
    """The CPU time of a policy, in the kernel and in the agent, as a share of the runtime."""
    in_agent_s = run.metrics.get("controller_cpu_s", 0.0)
    return (run.metric("kdamond_cpu_s") + in_agent_s) / run.metric("runtime_s")


def spare_core_slowdown(run: Measurement, baseline: Measurement) -> float:
    """By how much a run would be slower if the policy had a core of its own, as a fraction.

    On a machine with few CPUs, the program waits while the policy works. That wait is what the run waited for a CPU
    (PSI ``some`` of its group) more than its baseline did. It is taken off the slowdown as far as there is one: a
    program that sleeps between its requests loses no time by waiting.
    """
    lost = slowdown(run, baseline)
    waited_us = max(0.0, run.metric("psi_cpu_some_us") - baseline.metric("psi_cpu_some_us"))
    return lost - min(max(0.0, lost), waited_us / 1e6 / baseline.metric("runtime_s"))


def slowdown_margin(run: Measurement, baseline: Measurement, limit: float) -> dict[str, float]:
    """The margin of a run to a limit on its slowdown, by the limit's text; empty for an infinite limit."""
    if math.isinf(limit):
        return {}
    return {f"slowdown<={limit:g}": (limit - slowdown(run, baseline)) / (abs(limit) or 1.0)}


def memory_saving(run: Measurement, baseline: Measurement) -> float:
    """The share of the baseline's average RSS that a run saves."""
    return 1 - run.metric("rss_avg_bytes") / baseline.metric("rss_avg_bytes")


TERMS: Mapping[str, Term] = {
    "slowdown": Term(("runtime_s",), slowdown, "runtime / baseline's - 1", least=-1),
    "spare_core_slowdown": Term(
        ("runtime_s", "psi_cpu_some_us"), spare_core_slowdown, "the same, if the policy had a core of its own", least=-1
    ),
    "speedup": Term(("runtime_s",), _saving("runtime_s"), "1 - runtime / baseline's", most=1),
    "memory_saving": Term(("rss_avg_bytes",), memory_saving, "1 - RSS / baseline's", most=1),
    "net_saving": Term(
        ("net_avg_bytes",), _saving("net_avg_bytes"),
        "the same of all memory that is charged, compressed swap included", most=1,
    ),
    "system_saving": Term(
        ("system_used_avg_bytes",), _saving("system_used_avg_bytes"), "the same of all memory that the machine uses",
        most=1,
    ),
    "kdamond_cpu": Term(
        ("kdamond_cpu_s", "runtime_s"), _share("kdamond_cpu_s", 1), "CPU time of kdamond / runtime", least=0
    ),
    "policy_cpu_share": Term(
        ("kdamond_cpu_s", "runtime_s"), lambda run, _: policy_cpu_share(run), "CPU time of the policy / runtime",
        least=0,
    ),
    "memory_pressure": Term(
        ("psi_some_us", "runtime_s"), _share("psi_some_us", 1e6), "share of the runtime with 'some' memory pressure",
        least=0, most=1,
    ),
    "io_pressure": Term(
        ("psi_io_some_us", "runtime_s"), _share("psi_io_some_us", 1e6), "share of the runtime with 'some' io pressure",
        least=0, most=1,
    ),
}  # fmt: skip


def term(name: str) -> Term:
    """A term by its name; any other name is that of a metric as the run reports it.

    Raises
    ------
    ConfigError : a name that no metric can have
    """
    if name in TERMS:
        return TERMS[name]
    if "." in name:
        return _of_one_role(name)
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ConfigError(f"'{name}' is not a metric{nearest(name, TERMS)}")
    return Term((name,), lambda run, _: run.metric(name), "as the run reports it")


def _of_one_role(name: str) -> Term:
    """``net_saving.tax``: a term of what is told of one role; see `damoos.model.roles`."""
    whole, _, role = name.partition(".")
    if role not in ROLES:
        raise ConfigError(f"'{name}': there is no role '{role}'{nearest(role, ROLES)}")
    of_all = term(whole)
    needs = tuple(of_role(need, role) if need in ROLE_METRICS else need for need in of_all.needs)
    if needs == of_all.needs:
        raise ConfigError(f"'{name}': '{whole}' is not told of each role, only of the whole run")
    return Term(needs, lambda run, base: of_all.of(part(run, role), part(base, role)), f"{of_all.meaning}, of a role")


# Terms and sides of limits whose margin can only shrink while a run goes on.
_BROKEN_BY_TIME = {("runtime_s", True), ("slowdown", True), ("speedup", False)}
_LIMIT = re.compile(r"\s*(\w+(?:\.\w+)?)\s*(<=|>=|<|>)\s*([-+.\w%]+)(\s+every)?\s*")


@dataclass(frozen=True)
class Limit:
    """A bound on a term, absolute or as a multiple of the baseline's (``p99_ms<=1.2x``).

    It holds for the mean of several runs, or for each of them (``p99_ms<=1.2x every``).
    """

    text: str
    name: str
    is_upper: bool
    bound: float
    of_baseline: bool
    every: bool = False

    @property
    def needs(self) -> tuple[str, ...]:
        """Metrics that it reads."""
        return term(self.name).needs

    def margin(self, run: Measurement, baseline: Measurement) -> float:
        """How far inside the bound a run lies, in units of the bound; negative where the run breaks it.

        A bound of 0 is no unit: the baseline's own value takes its place, or 1 where that is 0, too.
        """
        of = term(self.name).of
        usual = of(baseline, baseline)
        bound = self.bound * usual if self.of_baseline else self.bound
        inside = bound - of(run, baseline) if self.is_upper else of(run, baseline) - bound
        return inside / (abs(bound) or abs(usual) or 1.0)


def parse_limit(text: str) -> Limit:
    """Read ``slowdown<=0.05``, ``slowdown<=5%``, ``rss_max_bytes<=1G``, ``p99_ms<=1.2x`` or ``p99_ms<=1.2x every``.

    Raises
    ------
    ConfigError : not of this form
    """
    match = _LIMIT.fullmatch(text)
    if match is None:
        raise ConfigError(f"--limit '{text}': write NAME<=NUMBER, for example slowdown<=0.05 or p99_ms<=1.2x")
    name, sign, word, every = match.groups()
    term(name)
    of_baseline = word.endswith("x")
    if of_baseline and name.partition(".")[0] in TERMS:
        raise ConfigError(f"--limit '{text}': '{name}' is already relative to the baseline; write a plain number")
    try:
        bound = _number(word, name)
    except ValueError:
        hint = f"; in the unit of the name, {parse_us(word) / 1e6:g} s" if _is_time(word) else ""
        raise ConfigError(f"--limit '{text}': '{word}' is not a number{hint}") from None
    is_upper = sign.startswith("<")
    if not of_baseline:
        _check_bound(text, name, bound, is_upper)
    return Limit(" ".join(text.split()), name, is_upper, bound, of_baseline, every is not None)


def _check_bound(text: str, name: str, bound: float, is_upper: bool) -> None:
    """Refuse a bound that every run breaks, or that every run keeps.

    Raises
    ------
    ConfigError : it is one of the two
    """
    found = term(name)
    if found.least <= bound <= found.most:
        return
    side, end, other = ("below", found.least, "larger") if bound < found.least else ("above", found.most, "smaller")
    is_kept = is_upper == (side == "above")
    raise ConfigError(
        f"--limit '{text}': '{name}' is never {side} {end:g}, so {'every' if is_kept else 'no'} run keeps this; write a"
        f" {other} number"
    )


def subject(text: str) -> str:
    """The term that a limit is on; ``speedup`` is ``slowdown`` from the other side."""
    name = re.split(r"[\s<>=]", text.strip(), maxsplit=1)[0]
    return "slowdown" if name == "speedup" else name


class Limits:
    """Some limits at once.

    Parameters
    ----------
    texts : sequence of str
        As `parse_limit` reads them.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._limits = [parse_limit(text) for text in texts]

    @property
    def texts(self) -> list[str]:
        """The limits as they were written."""
        return [limit.text for limit in self._limits]

    @property
    def needs(self) -> list[str]:
        """Metrics that they read."""
        return [name for limit in self._limits for name in limit.needs]

    def margins(self, run: Measurement, baseline: Measurement) -> dict[str, float]:
        """The margin of a run to each of them, by the limit's text.

        Raises
        ------
        MeasurementError : a metric is missing in one of the two
        """
        for name in self.needs:
            baseline.metric(name)
        return {limit.text: limit.margin(run, baseline) for limit in self._limits}

    def stopped(self, run: Measurement, baseline: Measurement) -> Score:
        """The score of a run that was stopped as too slow: what its time alone says of the limits."""
        timed = [limit for limit in self._limits if (limit.name, limit.is_upper) in _BROKEN_BY_TIME]
        return Score(None, False, {limit.text: limit.margin(run, baseline) for limit in timed})

    @property
    def every(self) -> frozenset[str]:
        """The texts of the limits that each run must keep."""
        return frozenset(limit.text for limit in self._limits if limit.every)

    @property
    def max_slowdown(self) -> float:
        """The tightest limit on ``slowdown`` or, the same from the other side, on ``speedup``; infinite without one."""
        bounds = [limit.bound for limit in self._limits if limit.name == "slowdown" and limit.is_upper]
        bounds += [-limit.bound for limit in self._limits if limit.name == "speedup" and not limit.is_upper]
        return min(bounds, default=math.inf)


def _number(word: str, name: str) -> float:
    """The number of a limit's bound; one on bytes may be written as a size.

    Raises
    ------
    ValueError : it is none
    """
    if re.search(r"_bytes(_|$)", name) and re.fullmatch(r"[\d.]+[KMGT](i?B)?", word):
        return parse_bytes(word)
    bound = float(word.removesuffix("x").removesuffix("%")) / (100 if word.endswith("%") else 1)
    if not math.isfinite(bound):
        raise ValueError(word)
    return bound


def _is_time(word: str) -> bool:
    try:
        parse_us(word)
    except ConfigError:
        return False
    return True
