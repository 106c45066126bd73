"""What tuned policies would save on a fleet, from studies of some of its workloads on some machines.

A normal model with two levels: a study's saving is the mean of all workloads, plus what its workload is different by,
plus what its machine is different by, plus the noise of its runs. How far workloads and machines lie apart is estimated
together with the rest, over a grid, with a half-normal prior; so few studies make wide intervals, and a workload that
nobody has studied is one like the others. The fleet is then drawn again and again, host by host.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from damoos.common import user_file
from damoos.errors import ConfigError
from damoos.scorers.cost import HOURS_A_MONTH, Prices
from damoos.statistics.arms import TUNED, beside, rounds_of
from damoos.statistics.verdict import INDISTINGUISHABLE, NOT_COMPARABLE
from damoos.study.damage import names_damage
from damoos.study.study import Study
from damoos.units import quoted

Floats = NDArray[np.float64]

# Each line of a fleet takes 4000 draws, and a file of a thousand lines has some 30 KiB.
_MOST_LINES, _MOST_BYTES = 1000, 256 << 10
# Of hosts, and of GiB.
_MOST = 1e9
COLUMNS = ("workload", "hosts", "memory_gib")
# Scale of the half-normal prior of both spreads, as a share of the memory.
SPREAD = 0.1
_GRID = np.linspace(0.0, 0.4, 41)
DRAWS = 4000
# Of a canary: chance to miss a saving, and to see one where there is none.
MISS, RISK = 0.1, 0.01
# A run's saving is hardly known better than this, whatever few of them say.
_LEAST_ERROR = 0.005
# For how many hours a canary of one host beside three has to bake until nine in ten savings are shown: by the
# correlation of a window of 10 s with the next one, and by the least saving. Windows differ by 10 %, and no more than
# 1 % of those that save nothing, or harm up to the tolerance, go on (tests/bench/windows.py).
BAKE_HOURS: Mapping[float, Mapping[float, int]] = {
    0.5: {0.3: 1, 0.2: 1, 0.1: 3},
    0.9: {0.3: 3, 0.2: 3, 0.1: 12},
    0.95: {0.3: 6, 0.2: 12, 0.1: 24},
}
# Shares of the total's variance from which on a study of the workload is worth its time.
WORTH_A_STUDY = 0.1


@dataclass(frozen=True)
class Hosts:
    """A line of the fleet: so many hosts with a workload, each with so much memory in use, in GiB."""

    workload: str
    hosts: int
    memory_gib: float


@dataclass(frozen=True)
class Measured:
    """What a study's best policy saves: the share of the memory, and its standard error; 0 where nothing is better."""

    workload: str
    machine: str
    saving: float
    error: float


def read(file: Path) -> list[Hosts]:
    """The lines of a fleet's CSV file, with the columns `COLUMNS`: a regular file, or ``<(command)`` of the shell.

    Raises
    ------
    ConfigError : not such a file
    """
    try:
        text = user_file.read_text(file, _MOST_BYTES, user_file.regular_or_shells)
        reader = csv.DictReader(text.splitlines())
        rows = list(itertools.islice(reader, _MOST_LINES + 1))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError(f"--fleet {file}: {getattr(error, 'strerror', None) or error}") from None
    if not rows:
        raise ConfigError(f"--fleet {file}: no hosts; it is a CSV file with the columns {', '.join(COLUMNS)}")
    if len(rows) > _MOST_LINES:
        raise ConfigError(f"--fleet {file}: more than {_MOST_LINES} lines; put workloads that are alike into one line")
    for name in COLUMNS:
        if name not in rows[0]:
            raise ConfigError(f"--fleet {file}: there is no column '{name}'; its columns are {', '.join(COLUMNS)}")
        if list(reader.fieldnames or ()).count(name) > 1:
            raise ConfigError(f"--fleet {file}: there are two columns '{name}'; leave one of them out")
    return [_hosts(row, f"--fleet {file}, line {number}") for number, row in enumerate(rows, 2)]


def _hosts(row: Mapping[str, str], where: str) -> Hosts:
    numbers = []
    for name in COLUMNS[1:]:
        try:
            value = float(row[name])
        except (TypeError, ValueError):
            raise ConfigError(f"{where}: {name} {quoted(str(row[name]))} is not a number") from None
        if not 0 < value <= _MOST:
            raise ConfigError(f"{where}: {name} {quoted(row[name])} is not above 0 and at most {_MOST:.0f}")
        numbers.append(value)
    if not row["workload"]:
        raise ConfigError(f"{where}: there is no workload")
    return Hosts(row["workload"], max(1, round(numbers[0])), numbers[1])


def measured(studies: Sequence[Study]) -> list[Measured]:
    """What the studies that have finished say.

    Raises
    ------
    ConfigError : none has
    """
    found = [_measured(study) for study in studies if study.record.result]
    if not found:
        raise ConfigError("none of its studies has finished yet")
    return found


@names_damage
def _measured(study: Study) -> Measured:
    where = study.config.target, study.config.machine
    arm = study.arms()[0].get(TUNED)
    may_be_tuned = (study.record.result or {})["verdict"] in (TUNED, INDISTINGUISHABLE, NOT_COMPARABLE)
    if not may_be_tuned or arm is None or not arm.feasible:
        return Measured(*where, 0.0, _LEAST_ERROR)
    base = beside(rounds_of(study.runs()))
    names = {name for run in (*arm.runs.values(), *base.values()) for name in run.metrics}
    metric = "net_avg_bytes" if "net_avg_bytes" in names else "rss_avg_bytes"
    values = [1 - run.metric(metric) / base[n].metric(metric) for n, run in arm.runs.items()]
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else SPREAD
    return Measured(*where, float(np.mean(values)), max(error, _LEAST_ERROR))


def plan(
    fleet: Sequence[Hosts], found: Sequence[Measured], seed: int = 0, prices: Prices | None = None
) -> dict[str, Any]:
    """What the fleet would save.

    Returns
    -------
    dict
        ``workloads``: for each line of the fleet its ``workload``, ``hosts``, ``memory_gib``, ``measured_on`` (how many
        machines), ``saving`` and ``saved_gib`` (each with ``mean`` and ``ci95``), ``variance_share`` (of the total's
        variance), ``deserves_a_study``, ``canary_hosts`` (None where it is not expected to save anything, or the fleet
        has fewer), ``canary_bake_hours`` (how long one bakes, by the correlation of windows, see `BAKE_HOURS`; None
        where a saving is too small). ``total``: ``hosts``, ``memory_gib``, ``saved_gib``; with prices ``saved_money``
        (a month) and ``currency``. ``spread``: of ``workloads`` and of ``machines``, standard deviations.
    """
    chance = np.random.default_rng(seed)
    if len(fleet) > _MOST_LINES or len(found) > _MOST_LINES:
        raise ConfigError(f"a plan is for at most {_MOST_LINES} lines of a fleet, and {_MOST_LINES} studies")
    studied = list(dict.fromkeys(one.workload for one in found))
    workloads = list(dict.fromkeys([*studied, *(one.workload for one in fleet)]))
    of_workloads, of_machines, savings = _draw(studied, len(workloads) - len(studied), found, chance)
    lines, drawn = [], []
    for line in fleet:
        own = savings[:, workloads.index(line.workload)]
        # The mean over the line's hosts: each has its own machine's difference.
        share = own + of_machines * chance.standard_normal(DRAWS) / math.sqrt(line.hosts)
        drawn.append(share * line.hosts * line.memory_gib)
        lines.append(_line(line, found, share, drawn[-1], of_machines, own))
    total = np.sum(drawn, axis=0)
    for said, gib in zip(lines, drawn, strict=True):
        variance = float(np.cov(gib, total)[0, 1] / np.var(total, ddof=1)) if np.var(total) else 0.0
        said["variance_share"] = variance
        said["deserves_a_study"] = variance > WORTH_A_STUDY and said["measured_on"] < 2
    whole: dict[str, Any] = {
        "hosts": sum(one.hosts for one in fleet),
        "memory_gib": sum(one.hosts * one.memory_gib for one in fleet),
        "saved_gib": _told(total),
    }
    if prices is not None:
        whole |= {"saved_money": _told(total * prices.gib_hour * HOURS_A_MONTH), "currency": prices.currency}
    spread = {"workloads": float(of_workloads.mean()), "machines": float(of_machines.mean())}
    return {"workloads": lines, "total": whole, "spread": spread}


def _line(
    line: Hosts, found: Sequence[Measured], share: Floats, gib: Floats, of_machines: Floats, own: Floats
) -> dict[str, Any]:
    expected = float(own.mean())
    quantiles = NormalDist().inv_cdf(1 - RISK) + NormalDist().inv_cdf(1 - MISS)
    canary = math.ceil((quantiles * float(of_machines.mean()) / expected) ** 2) if expected > 0 else None
    return {
        "workload": line.workload,
        "hosts": line.hosts,
        "memory_gib": line.memory_gib,
        "measured_on": len({one.machine for one in found if one.workload == line.workload}),
        "saving": _told(share),
        "saved_gib": _told(gib),
        "canary_hosts": None if canary is None or canary > line.hosts else max(canary, 1),
        "canary_bake_hours": {f"{rho:g}": _bake_hours(expected, hours) for rho, hours in BAKE_HOURS.items()},
    }


def _bake_hours(saving: float, hours: Mapping[float, int]) -> int | None:
    return next((needed for least, needed in hours.items() if saving >= least), None)


def _told(values: Floats) -> dict[str, Any]:
    return {"mean": float(values.mean()), "ci95": [float(end) for end in np.quantile(values, [0.025, 0.975])]}


def _draw(
    studied: Sequence[str], nr_others: int, found: Sequence[Measured], chance: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Draws of both spreads, and of each workload's saving on a machine like the others: studied ones, then others.

    Matrices are as large as there are workloads with studies, whatever the fleet has, and only one fit has them.
    """
    y = np.array([one.saving for one in found])
    noise = np.array([one.error**2 for one in found])
    of_workload = np.array([[float(one.workload == name) for name in studied] for one in found])
    cells = list(itertools.product(_GRID, _GRID))
    logs = np.array([_Fit(y, noise, of_workload, *cell).log_likelihood + _log_prior(*cell) for cell in cells])
    weights = np.exp(logs - logs.max())
    taken = chance.choice(len(cells), DRAWS, p=weights / weights.sum())
    drawn = np.empty((DRAWS, len(studied) + nr_others))
    for nth in np.unique(taken):
        rows = np.flatnonzero(taken == nth)
        drawn[rows] = _Fit(y, noise, of_workload, *cells[nth]).draw(chance, len(rows), nr_others)
    spreads = np.array(cells)[taken]
    return spreads[:, 0], spreads[:, 1], drawn


def _log_prior(of_workloads: float, of_machines: float) -> float:
    return -(of_workloads**2 + of_machines**2) / (2 * SPREAD**2)


class _Fit:
    """The normal model for given spreads: its likelihood, with the mean integrated out, and its draws.

    Parameters
    ----------
    y, noise : ndarray, shape (studies,)
        Savings, and squares of their errors.
    of_workload : ndarray, shape (studies, workloads)
        1 where a study is of a workload.
    of_workloads, of_machines : float
        The spreads.
    """

    def __init__(self, y: Floats, noise: Floats, of_workload: Floats, of_workloads: float, of_machines: float) -> None:
        covariance = np.diag(noise + of_machines**2) + of_workloads**2 * of_workload @ of_workload.T
        inverse = np.linalg.inv(covariance)
        precision = inverse.sum()
        self._mean, self._variance = float(inverse.sum(0) @ y / precision), float(1 / precision)
        left = y - self._mean
        squares = left @ inverse @ left
        self.log_likelihood = -0.5 * float(np.linalg.slogdet(covariance)[1] + math.log(precision) + squares)
        self._of_workload, self._of_workloads = of_workload, of_workloads
        self._inverse, self._left = inverse, left

    def draw(self, chance: np.random.Generator, count: int, nr_others: int) -> Floats:
        """Savings of all workloads with studies, and then of so many others, ``count`` times."""
        of_workload, variance = self._of_workload, self._of_workloads**2
        gain = variance * of_workload.T @ self._inverse
        spread = variance * np.eye(of_workload.shape[1]) - gain @ of_workload * variance
        root = np.linalg.cholesky(spread + 1e-12 * np.eye(len(spread)))
        own = chance.standard_normal((count, len(root))) @ root.T
        shared = math.sqrt(self._variance) * chance.standard_normal((count, 1))
        studied = self._mean + gain @ self._left + own + shared * (1 - gain.sum(1))
        # Nothing is known of the others but the mean and the spread.
        others = self._mean + shared + self._of_workloads * chance.standard_normal((count, nr_others))
        return np.hstack([studied, others])
