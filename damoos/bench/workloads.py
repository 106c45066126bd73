"""Workloads measured as they are, and models held against what has been published of the programs they stand for."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from damoos.bench.curves import load
from damoos.dispatch.lease import Lease
from damoos.errors import ConfigError, nearest
from damoos.model.trial import Measurement
from damoos.policies import named
from damoos.policies.base import NonePolicy, Policy
from damoos.scorers.daos import DaosScorer
from damoos.scorers.terms import term
from damoos.study.config import manual_policy
from damoos.study.run_config import RunConfig
from damoos.units import show_bytes
from damoos.workloads import catalog
from damoos.workloads.base import Workload

Say = Callable[[str], None]
# A model whose runtime or RSS is further off than this does not follow; nor does one with half or twice the saving or
# slowdown.
TOLERANCE = 0.20
RATIO = 2.0
# Savings and slowdowns that are this close (fractions of RSS and of runtime) are the same, however small they are.
POINTS = 0.03
# The scheme under which the published numbers were measured.
PUBLISHED_UNDER = "v8-prcl"
# Correlation with the published scores from which on a curve has the same shape.
CORRELATION = 0.6
# Ages at which a model's score is held against a published curve, in the program's own time.
CURVE_AGES_S = (1, 3, 5, 8, 12, 20, 30, 45)


@dataclass(frozen=True)
class Measured:
    """A workload without a scheme and under one, the manual one where no other is said.

    ``wall_s`` is what the second of these took by the clock on the wall, its warm-up included.
    """

    workload: Workload
    without: Measurement
    under: Measurement
    wall_s: float

    @property
    def saving(self) -> float:
        """Fraction of the RSS that the scheme saved."""
        return term("memory_saving").of(self.under, self.without)

    @property
    def slowdown(self) -> float:
        """What the scheme cost."""
        return term("slowdown").of(self.under, self.without)


def chosen(patterns: Sequence[str]) -> list[str]:
    """Names of the catalogue that match one of some patterns such as ``redis/*``.

    Raises
    ------
    ConfigError : a pattern that matches nothing
    """
    known = catalog.names()
    names: list[str] = []
    for pattern in patterns:
        matching = [name for name in known if Path(name).match(pattern)]
        if not matching:
            raise ConfigError(f"no workload matches '{pattern}'{nearest(pattern, known)}")
        names += [name for name in matching if name not in names]
    return names


def measure(
    name: str,
    machine: str,
    say: Say,
    ages_us: Sequence[int] = (),
    require_real: bool = False,
    configuration: str | None = None,
) -> tuple[Measured, list[float | None]]:
    """Run a workload without a scheme and under one, and score the manual one at further ages.

    Parameters
    ----------
    require_real : bool
        Refuse a model.
    configuration : str or None
        The scheme, by its name as a configuration of evaluations; the manual one if None.

    Returns
    -------
    (Measured, list of float or None)
        Scores in percent points by the paper's rule, None where its limit was broken.
    """
    config = RunConfig(workload=name, machine=machine, require_real=require_real)
    with Lease(config.machine_for(), say) as lease:
        workload = config.workload_on(lease.place)
        limit_s = workload.tuning.limit_s
        without, _ = lease.run(workload, NonePolicy(), limit_s)  # the first run also makes the set-up
        begun = time.monotonic()
        under, _ = lease.run(workload, _policy(configuration, workload), limit_s)
        wall_s = time.monotonic() - begun
        scores = []
        for age_us in ages_us:
            measurement, _ = lease.run(workload, manual_policy(age_us, "vaddr"), limit_s)
            score = DaosScorer().score(measurement, without, ())
            scores.append(None if score.value is None else 100 * score.value)
    return Measured(workload, without, under, wall_s), scores


def _policy(configuration: str | None, workload: Workload) -> Policy:
    if configuration is None:
        return manual_policy(workload.tuning.manual_us, "vaddr")
    return named.policy(named.resolve([configuration])[configuration])


COLUMNS = ("workload", "variant", "reports", "runtime", "RSS", "under prcl: slowdown", "RSS saving", "wall")


def row_of(name: str, measured: Measured) -> dict[str, str]:
    """A measured workload, by the names of the columns."""
    base = measured.without
    reported = [f"{metric} {base.metric(metric):.4g}" for metric in measured.workload.reports if metric != "ops"]
    values = (
        f"`{name}`",
        measured.workload.variant,
        ", ".join(reported),
        f"{base.metric('runtime_s'):.1f} s",
        show_bytes(base.metric("rss_avg_bytes")),
        f"{measured.slowdown:+.1%}",
        f"{measured.saving:.1%}",
        f"{measured.wall_s:.0f} s",
    )
    return dict(zip(COLUMNS, values, strict=True))


@dataclass(frozen=True)
class Comparison:
    """One figure of a model, in the program's own size, beside the published one."""

    what: str
    model: float
    published: float
    follows: bool


def compare(name: str, machine: str, say: Say, curves: Path | None = None) -> list[Comparison]:
    """Run a model and hold it against what has been published.

    Parameters
    ----------
    curves : Path or None
        Folder of published scores by ``min_age``; a workload that has one there is compared by its shape, too.

    Raises
    ------
    ConfigError : the workload has no model, or the machine has the program itself
    """
    file = catalog.find(name)[1]
    published = file.published
    if file.model is None or published is None:
        raise ConfigError(f"workload '{name}' has no model, so there is nothing to check")
    curve = next((curve for curve in load(curves) if curve.name == name), None) if curves else None
    ages_us = [int(age_s * 1e6) for age_s in CURVE_AGES_S] if curve else []
    measured, scores = measure(name, machine, say, ages_us, configuration=PUBLISHED_UNDER)
    if measured.workload.variant != "model":
        raise ConfigError(f"machine '{machine}' has '{name}' itself, so its model does not run there")

    def near(what: str, model: float, real: float) -> Comparison:
        return Comparison(what, model, real, abs(model / real - 1) <= TOLERANCE)

    def alike(what: str, model: float, real: float) -> Comparison:
        return Comparison(what, model, real, _same(model, real))

    comparisons = [
        near("runtime, s", measured.without.metric("runtime_s"), published.runtime_s),
        near(
            "RSS, MiB",
            measured.without.metric("rss_avg_bytes") * file.model.memory_scale / (1 << 20),
            published.rss_kib / 1024,
        ),
        alike("prcl RSS saving", measured.saving, 1 - published.prcl_rss_kib / published.rss_kib),
        alike("prcl slowdown", measured.slowdown, published.prcl_runtime_s / published.runtime_s - 1),
    ]
    if curve:
        theirs = [float(curve.score[list(curve.ages_s).index(age_s)]) for age_s in CURVE_AGES_S]
        same = _correlation([np.nan if score is None else score for score in scores], theirs)
        comparisons.append(Comparison("shape of the curve (correlation)", same, 1.0, same >= CORRELATION))
    return comparisons


def _same(model: float, real: float) -> bool:
    if abs(model - real) <= POINTS:
        return True
    return real > 0 and 1 / RATIO < model / real < RATIO


def _correlation(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Pearson's; a broken limit (not finite) counts as the worst score that kept it. 0 where a curve is flat."""

    def filled(values: Sequence[float]) -> list[float]:
        worst = min((value for value in values if np.isfinite(value)), default=0.0)
        return [value if np.isfinite(value) else worst for value in values]

    if np.ptp(filled(ours)) == 0 or np.ptp(filled(theirs)) == 0:
        return 0.0
    return float(np.corrcoef(filled(ours), filled(theirs))[0, 1])
