"""How much of a machine's noise there is: the same work, repeated under two names."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from damoos.doctor.finding import NOISE_UNFIT, NOISE_WARN, OK, UNFIT, WARN, Finding, graded
from damoos.errors import DamoosError, MachineTransientError
from damoos.machines.base import Conditions

BLOCK_S = 1.0
# Fraction of the machine's CPUs that others may use before they are mentioned.
OTHERS_WARN = 0.1


@dataclass(frozen=True)
class Noise:
    """What the same work, repeated, says of a machine.

    Parameters
    ----------
    nr_pieces : int
        Pieces of work that ran, A and B together.
    spread : float
        Standard deviation of whole seconds of work, as a fraction of their mean.
    low, high : float
        95 % interval of A/B - 1 (paired t-interval on logarithms).
    steal : float
        Fraction of the time that a hypervisor gave to others.
    others_cpus : float
        CPUs that others kept busy.
    """

    nr_pieces: int
    spread: float
    low: float
    high: float
    steal: float
    others_cpus: float

    @classmethod
    def of(cls, measured: dict[str, Any]) -> Noise:
        """Worked out of an agent's `steadiness`."""
        first, second = np.array(measured["a_s"]), np.array(measured["b_s"])
        ratios, elapsed_s = np.log(first / second), measured["elapsed_s"]
        half = stdtrit(len(ratios) - 1, 0.975) * ratios.std(ddof=1) / math.sqrt(len(ratios))
        nr_blocks = min(len(ratios), max(2, round(elapsed_s / BLOCK_S)))
        seconds = np.array([block.mean() for block in np.array_split(first + second, nr_blocks)])
        return cls(
            nr_pieces=2 * len(ratios),
            spread=float(seconds.std(ddof=1) / seconds.mean()),
            low=math.expm1(ratios.mean() - half),
            high=math.expm1(ratios.mean() + half),
            steal=measured["steal_s"] / elapsed_s,
            others_cpus=measured["others_cpu_s"] / elapsed_s,
        )

    @property
    def worst(self) -> float:
        """The largest of what can hide a slowdown."""
        return max(self.spread, abs(self.low), abs(self.high), self.steal)

    def __str__(self) -> str:
        return (
            f"{self.nr_pieces} equal pieces of work: seconds spread by {self.spread:.2%},"
            f" A/B 95 % interval {self.low:+.2%} to {self.high:+.2%}, steal {self.steal:.1%},"
            f" others used {self.others_cpus:.2f} CPUs"
        )


def neighbours(call: Callable[..., Any], conditions: Conditions, nr_cpus: int, steady_s: float) -> Finding:
    """Whether others disturb what runs on the CPUs that the machine file names."""
    try:
        measured = call("steadiness", for_s=steady_s, cpus=list(conditions.cpu_list()))
    except MachineTransientError:
        raise
    except DamoosError as error:
        return Finding("neighbours", UNFIT, str(error), "correct 'cpus' of the machine file")
    noise = Noise.of(measured)
    level = graded(noise.worst, NOISE_WARN, NOISE_UNFIT)
    if level == OK and noise.others_cpus > OTHERS_WARN * nr_cpus:
        level = WARN
    remedy = "end or pin away what else runs there, fix the CPUs' frequency, or take another machine"
    return Finding("neighbours", level, str(noise), "" if level == OK else remedy)
