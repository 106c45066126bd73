"""Workloads whose best scheme is known: made ones, and anybody's own simulator.

A made workload is groups of pages. How long a group is left alone between two uses is lognormal; groups differ in the
median and the spread of these gaps, in size, in how often they are used while they are in use, in how large their
regions are, and in what a fault costs. What a scheme of ``min_age``, ``max_freq``, ``quota_sz``, ``min_size``,
``action`` and ``quota_time`` saves and costs follows by arithmetic: it is a model, and what is found on it says nothing
of any program.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from damoos.common.plugins import function_of, python_file
from damoos.damon.attrs import Attrs
from damoos.errors import ConfigError
from damoos.model.space import Params, Space, parse_param
from damoos.model.trial import Measurement

Array = NDArray[np.float64]

NR_GROUPS = 40
# What is tuned with one parameter, with two, and so on, and the schemes in which they stand.
TUNABLES = (
    "min_age=100ms:60s",
    "max_freq=0:100",
    "quota_sz=1M:1G",
    "min_size=4K:2M",
    "action=pageout,cold",
    "quota_time=1ms:1000ms",
)
TEMPLATES = (
    "4K max  min max  MIN_AGE max  pageout",
    "4K max  min MAX_FREQ  MIN_AGE max  pageout",
    "4K max  min MAX_FREQ  MIN_AGE max  pageout",
    "MIN_SIZE max  min MAX_FREQ  MIN_AGE max  pageout",
    "MIN_SIZE max  min MAX_FREQ  MIN_AGE max  ACTION",
    "MIN_SIZE max  min MAX_FREQ  MIN_AGE max  ACTION",
)
# Of what ``cold`` marks, this share is reclaimed; and so much is paged out in a millisecond.
MARKED, BYTES_PER_MS = 0.3, float(1 << 20)
RUNTIME_S, RSS_BYTES = 100.0, float(1 << 30)
NO_QUOTA = float(1 << 40)
# Points on each axis of the grid on which the best point is looked for, by the number of parameters.
NR_GRID = (200, 40, 16, 8, 6, 4)
# To which the steps from the best point of the grid are halved, in units of the cube's edge.
SMALLEST_STEP = 0.002
# Runs whose mean is taken for what a simulator truly gives.
NR_MEAN = 32


@dataclass(frozen=True)
class Surface:
    """A workload that is not there.

    Parameters
    ----------
    name : str
    space : Space
    run : callable
        A point, or None for no scheme, and a random generator give a run.
    mean : callable
        What runs of a point, or of no scheme, are on the average.
    recipe : (int, int, int) or None
        What `generate` makes it of: number of parameters, seed, number; None for a simulator of somebody's own.
    groups : Groups or None
        Of a made one.
    noise : float
        Of a made one: standard deviation of the logarithm of a run's time.
    """

    name: str
    space: Space
    run: Callable[[Params | None, np.random.Generator], Measurement]
    mean: Callable[[Params | None], Measurement]
    recipe: tuple[int, int, int] | None = None
    groups: Groups | None = None
    noise: float = 0.0

    def grid(self) -> Iterator[Params]:
        """Points that cover the space, evenly on each parameter's own scale."""
        count = NR_GRID[min(len(self.space.params), len(NR_GRID)) - 1]
        axes = np.meshgrid(*[np.linspace(0, 1, count)] * len(self.space.params))
        yield from self.space.distinct(np.column_stack([axis.ravel() for axis in axes]))

    def highest(self, worth: Callable[[Params], float]) -> float:
        """The largest worth of any point: of the grid, and then of ever smaller steps from its best point."""
        top, point = max(((worth(point), point) for point in self.grid()), key=lambda pair: pair[0])
        place = np.array(self.space.to_unit(point))
        step = 1 / NR_GRID[min(len(place), len(NR_GRID)) - 1]
        while step > SMALLEST_STEP:
            moves = np.vstack([np.eye(len(place)), -np.eye(len(place))]) * step
            places = np.clip(place + moves, 0, 1)
            found = [worth(self.space.from_unit(one)) for one in places]
            if max(found) > top:
                top, place = max(found), places[int(np.argmax(found))]
            else:
                step /= 2
        return top


@dataclass(frozen=True)
class Groups:
    """The groups of a workload's pages: one entry for each in every array.

    Parameters
    ----------
    gaps_s, spreads : ndarray of shape (n,)
        Median of the time between two uses, and the standard deviation of its logarithm.
    sizes : ndarray of shape (n,)
        Shares of the memory.
    frequencies : ndarray of shape (n,), percent
    regions_bytes : ndarray of shape (n,)
    costs_s : ndarray of shape (n,), seconds
        Of faulting all of a group in.
    """

    gaps_s: Array
    spreads: Array
    sizes: Array
    frequencies: Array
    regions_bytes: Array
    costs_s: Array

    def under(self, age_s: float, frequency: float, quota_bytes: float, region_bytes: float) -> tuple[float, float]:
        """Slowdown and saving of a scheme, as fractions."""
        mean_s = self.gaps_s * np.exp(self.spreads**2 / 2)
        z = np.log(age_s / self.gaps_s) / self.spreads
        # The share of gaps that last longer than the age, and how long these leave the memory paged out.
        longer = ndtr(-z)
        out_s = mean_s * ndtr(self.spreads - z) - age_s * longer
        matched = 1 / (1 + np.exp((self.frequencies - frequency) / 4))
        matched = matched * ndtr(np.log(self.regions_bytes / region_bytes) / 0.7)
        rate = self.sizes * matched * longer / mean_s
        wanted_bytes = float(rate.sum()) * RSS_BYTES
        share = min(1.0, quota_bytes / wanted_bytes) if wanted_bytes else 1.0
        return share * float(rate @ self.costs_s), share * float((self.sizes * matched) @ (out_s / mean_s))


def generate(count: int, seed: int, nr_params: int = 1) -> list[Surface]:
    """Made workloads; their noise is 0.1 to 2 % of the runtime, and the limit on the slowdown binds in most.

    Raises
    ------
    ConfigError : there are no surfaces of so many parameters
    """
    if not 1 <= nr_params <= len(TUNABLES):
        raise ConfigError(f"--params {nr_params}: made surfaces have 1 to {len(TUNABLES)} parameters")
    random = np.random.default_rng([seed, nr_params])
    return [_make((nr_params, seed, number), random) for number in range(count)]


def _make(recipe: tuple[int, int, int], random: np.random.Generator) -> Surface:
    sizes = random.lognormal(0, 1, NR_GROUPS)
    groups = Groups(
        gaps_s=np.exp(random.uniform(np.log(0.02), np.log(300), NR_GROUPS)),
        spreads=random.uniform(0.3, 1.2, NR_GROUPS),
        sizes=sizes / sizes.sum(),
        frequencies=np.where(random.random(NR_GROUPS) < 0.5, 0.0, random.uniform(0, 100, NR_GROUPS)),
        regions_bytes=np.exp(random.uniform(np.log(4096), np.log(64 << 20), NR_GROUPS)),
        costs_s=random.lognormal(0, 1, NR_GROUPS),
    )
    # By how much the most eager scheme slows down says whether the limit binds.
    eager = groups.under(0.1, 100, NO_QUOTA, 4096)[0]
    groups = replace(groups, costs_s=groups.costs_s * math.exp(random.uniform(math.log(0.03), math.log(3))) / eager)
    noise = math.exp(random.uniform(math.log(0.001), math.log(0.02)))
    return replace(made("made {}/{}/{}".format(*recipe), groups, noise, recipe[0]), recipe=recipe)


def made(name: str, groups: Groups, noise: float, nr_params: int) -> Surface:
    """The surface of some groups.

    Parameters
    ----------
    noise : float
        Standard deviation of the logarithm of a run's time; that of its memory is a third of it.
    """

    def mean(point: Params | None) -> Measurement:
        return measurement(_under(groups, point))

    def run(point: Params | None, random: np.random.Generator) -> Measurement:
        return measurement(_under(groups, point), random.normal(0, 1, 2) * (noise, noise / 3))

    tunables = tuple(parse_param(text, Attrs().aggr_us) for text in TUNABLES[:nr_params])
    return Surface(name, Space(TEMPLATES[nr_params - 1], tunables), run, mean, groups=groups, noise=noise)


def elsewhere(surface: Surface, seed: int) -> Surface:
    """A made workload on another machine, or with another input.

    Its times and the costs of its faults differ by one factor each (standard deviations of the logarithms: 0.25, 0.5),
    and those and the sizes of its groups by factors of their own (0.15 to 0.2).
    """
    assert surface.groups
    groups, random = surface.groups, np.random.default_rng([seed, 1])

    def each(deviation: float) -> Array:
        return np.asarray(random.lognormal(0, deviation, len(groups.sizes)))

    sizes = groups.sizes * each(0.2)
    changed = replace(
        groups,
        gaps_s=groups.gaps_s * random.lognormal(0, 0.25) * each(0.15),
        sizes=sizes / sizes.sum(),
        costs_s=groups.costs_s * random.lognormal(0, 0.5) * each(0.2),
    )
    noise = surface.noise * random.lognormal(0, 0.3)
    return made(f"{surface.name}, elsewhere", changed, noise, len(surface.space.params))


def _under(groups: Groups, point: Params | None) -> tuple[float, float]:
    if point is None:
        return 0.0, 0.0
    quota = min(point.get("quota_sz_bytes", NO_QUOTA), BYTES_PER_MS * point.get("quota_time_ms", math.inf))
    age_s, frequency = max(0.05, point["min_age_us"] / 1e6), point.get("max_freq_percent", 100)
    share = MARKED if point.get("action") else 1.0
    slowdown, saving = groups.under(age_s, frequency, quota, point.get("min_size_bytes", 4096))
    return share * slowdown, share * saving


def measurement(truth: tuple[float, float], noise: Sequence[float] | Array = (0.0, 0.0)) -> Measurement:
    """A run of a scheme.

    Parameters
    ----------
    truth : (float, float)
        Its slowdown and saving, as fractions.
    noise : sequence of float
        Of the logarithms of the time and of the memory.
    """
    slowdown, saving = truth
    return Measurement(
        {
            "runtime_s": RUNTIME_S * (1 + slowdown) * math.exp(noise[0]),
            "rss_avg_bytes": RSS_BYTES * (1 - saving) * math.exp(noise[1]),
        }
    )


def load(path: str, tunables: Sequence[str], scheme: str) -> Surface:
    """Anybody's own simulator.

    Parameters
    ----------
    path : str
        ``FILE.py:FUNCTION``. The function is given the parameters by their names with units, such as ``min_age_us``, or
        None for a run without a scheme, and a NumPy random generator; it returns a run's metrics by name.
    tunables : sequence of str
        As for ``--tune``.
    scheme : str
        As for ``--scheme``.

    Raises
    ------
    ConfigError : there is no such function, or it fails without a scheme
    """
    file, _, name = path.partition(":")
    if not Path(file).is_file():
        raise ConfigError(f"--surface {path}: there is no file {file}; write FILE.py:FUNCTION")
    what = f"--surface {path}"
    function = function_of(python_file(Path(file), what), name, what)
    space = Space(scheme, tuple(parse_param(text, Attrs().aggr_us) for text in tunables))

    def run(point: Params | None, random: np.random.Generator) -> Measurement:
        try:
            return Measurement(dict(function(None if point is None else space.readable(point), random)))
        except Exception as error:  # whatever the code of somebody else raises
            raise ConfigError(f"--surface {path}: {type(error).__name__}: {error}") from None

    means: dict[str, Measurement] = {}

    def mean(point: Params | None) -> Measurement:
        if str(point) not in means:
            random = np.random.default_rng(0)
            runs = [run(point, random).metrics for _ in range(NR_MEAN)]
            means[str(point)] = Measurement({name: sum(one[name] for one in runs) / NR_MEAN for name in runs[0]})
        return means[str(point)]

    mean(None)
    return Surface(path, space, run, mean)
