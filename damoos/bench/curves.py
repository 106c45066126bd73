"""Response curves: measured ones from files, and made ones in the shapes that the DAOS paper expects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from damoos.common.json_file import Damage, JsonForm
from damoos.errors import ConfigError
from damoos.model.space import Param, Space
from damoos.model.trial import Score
from damoos.units import quoted

Array = NDArray[np.float64]

# Measured curves are noisy; what is true of them is what a Gaussian of this width leaves.
SMOOTH_S = 1.0
# Made curves cover the paper's range in its steps.
NR_AGES = 61
# Published curves have 61 values in 2 KiB. Smoothing takes the square of their number.
_MOST_VALUES, _MOST_BYTES, _MOST_FILES = 4096, 256 << 10, 1000


class _File(BaseModel):
    """What a file of a curve has; other keys are for people."""

    workload: Annotated[str, Field(max_length=256)]
    unit: str
    values: Annotated[list[Annotated[int, Field(ge=0, le=10**9)]], Field(max_length=_MOST_VALUES)]
    score: Annotated[
        list[Annotated[float, Field(ge=-1e100, le=1e100, allow_inf_nan=False)] | None], Field(max_length=_MOST_VALUES)
    ]


_FORM = JsonForm(_File, _MOST_BYTES)


@dataclass(frozen=True)
class Curve:
    """Scores at whole seconds of ``min_age``.

    Parameters
    ----------
    name : str
    ages_s : ndarray of shape (n,), int, seconds
        Evenly spaced.
    score : ndarray of shape (n,)
        What a run gives; NaN where it breaks the limits.
    truth : ndarray of shape (n,)
        What is true; where the limits are broken, the worst of the others.
    """

    name: str
    ages_s: NDArray[np.int64]
    score: Array
    truth: Array

    @property
    def space(self) -> Space:
        """The space that a searcher sees."""
        second = 1_000_000
        low, high, step = (
            int(age_s) * second for age_s in (self.ages_s[0], self.ages_s[-1], self.ages_s[1] - self.ages_s[0])
        )
        return Space("4K max  min min  MIN_AGE max  pageout", (Param("min_age", "us", low, high, step),))

    def index(self, age_us: int) -> int:
        """Place of an age in the arrays."""
        return int(np.searchsorted(self.ages_s, age_us // 1_000_000))

    def query(self, age_us: int) -> Score:
        """What a run at an age gives."""
        score = self.score[self.index(age_us)]
        return Score(None, feasible=False) if np.isnan(score) else Score(float(score), feasible=True)

    def regret(self, age_us: int) -> float:
        """What an age loses against the best one, in units of the range of the truth."""
        best, worst = self.truth.max(), self.truth.min()
        return float((best - self.truth[self.index(age_us)]) / ((best - worst) or 1.0))


def smoothed(score: Array) -> Array:
    """Truth of a measured curve: smoothed between, but not across, ages that break the limits."""
    feasible = ~np.isnan(score)
    stretch = np.cumsum(~feasible)
    places = np.arange(len(score))
    truth = np.full(len(score), np.nan)
    for at in places[feasible]:
        near = feasible & (stretch == stretch[at])
        weights = np.exp(-(((places[near] - at) / SMOOTH_S) ** 2) / 2)
        truth[at] = np.average(score[near], weights=weights)
    truth[~feasible] = np.nanmin(truth)
    return truth


def load(folder: Path) -> list[Curve]:
    """Curves of a folder of JSON files with ``workload``, ``unit`` (``s``), ``values`` and ``score`` (null: broken).

    Each is a regular file of 256 KiB at most.

    Raises
    ------
    ConfigError : no such folder, no curves in it, or a file that is none
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise ConfigError(f"--curves {folder}: no curves (*.json) there")
    if len(files) > _MOST_FILES:
        raise ConfigError(f"--curves {folder}: {len(files)} files (*.json) there; at most {_MOST_FILES} are read")
    return [_read(file) for file in files]


def _read(file: Path) -> Curve:
    try:
        content = _FORM.read(file)
    except OSError as error:  # a link to nothing
        raise ConfigError(f"{file}: {error.strerror}") from None
    if isinstance(content, Damage):
        raise ConfigError(f"{file}: not a response curve ({content.why})")
    ages = np.array(content["values"], dtype=np.int64)
    score = np.array([np.nan if value is None else value for value in content["score"]], dtype=np.float64)
    unit, name = content["unit"], content["workload"]
    if unit != "s":
        raise ConfigError(f"{file}: unit {quoted(unit)}; known: s")
    if len(ages) != len(score) or len(ages) < 3 or len(set(np.diff(ages))) != 1 or ages[1] <= ages[0]:
        raise ConfigError(f"{file}: values and score must be as many, 3 or more, and evenly spaced")
    if np.isnan(score).all():
        raise ConfigError(f"{file}: no value keeps the limits, so there is nothing to find")
    return Curve(name, ages, score, smoothed(score))


@dataclass(frozen=True)
class Recipe:
    """How curves are made.

    Parameters
    ----------
    noise : (float, float)
        Standard deviation of a run in units of the curve's range: drawn between these, log-uniform.
    cliffs : float
        Share of curves whose smallest ages break the limits.
    plateaus : float
        Share of curves that are cut off flat at the top.
    """

    noise: tuple[float, float] = (0.005, 0.05)
    cliffs: float = 0.6
    plateaus: float = 0.3

    def __post_init__(self) -> None:
        """Refuse what is no noise and no share."""
        low, high = self.noise
        if not 0 < low <= high or not 0 <= self.cliffs <= 1 or not 0 <= self.plateaus <= 1:
            raise ConfigError("curves: noise is LOW:HIGH with 0 < LOW <= HIGH; --cliffs and --plateaus lie in 0 to 1")


def generate(count: int, seed: int, recipe: Recipe | None = None) -> list[Curve]:
    """Curves of the six shapes in turn; what a run gives is the truth and noise.

    Performance falls and memory efficiency rises between two inflection points as the scheme gets more aggressive; the
    score is their sum, and which of the two comes first and which is larger gives the six shapes.

    References
    ----------
    DAOS (HPDC'22), section 3.3 and Figure 3
    """
    recipe = recipe or Recipe()
    random = np.random.default_rng(seed)
    return [_make(number, random, recipe) for number in range(count)]


def _make(number: int, random: np.random.Generator, recipe: Recipe) -> Curve:
    ages = np.arange(NR_AGES)
    position = np.log1p(ages) / np.log1p(ages[-1])
    shape = number % 6 + 1
    truth = _shape(shape, position, random)
    if random.random() < recipe.plateaus:
        truth = np.minimum(truth, truth.min() + random.uniform(0.6, 0.95) * np.ptp(truth))
    sigma = float(np.exp(random.uniform(*np.log(recipe.noise))))
    score = truth + sigma * np.ptp(truth) * random.standard_normal(NR_AGES)
    if random.random() < recipe.cliffs:
        cliff = round(float(np.expm1(random.uniform(0, 0.6) * np.log(NR_AGES)))) + 1
        score[:cliff] = np.nan
        truth = np.where(np.isnan(score), truth[cliff:].min(), truth)
    return Curve(f"shape-{shape}/{number}", ages, score, truth)


def _shape(shape: int, place: Array, random: np.random.Generator) -> Array:
    """Truth of one shape; ``place`` is the age on a logarithmic scale, 0 to 1, so aggressiveness falls along it."""
    # The inflection points, in the order in which a scheme meets them that gets more aggressive.
    first, second = random.uniform(0.5, 0.85), random.uniform(0.05, 0.4)
    first_width, second_width = random.uniform(0.03, 0.12, 2)
    large, small = random.uniform(0.5, 1.0), random.uniform(0.05, 0.4)

    def step(at: float, width: float) -> Array:
        return np.asarray(1 / (1 + np.exp((place - at) / width)))

    # 1 to 3: efficiency comes first. 4 to 6 are their mirror images: performance falls first.
    sign = 1 if shape <= 3 else -1
    match (shape - 1) % 3:
        case 0:  # one of the two dominates all the way
            return sign * (large * step(first, 2 * first_width) - small / 2 * step(first, first_width))
        case 1:  # the other one answers, but does not make up for the first
            answer = random.uniform(0.3, 0.9)
        case _:  # the other one makes more than up for it
            answer = random.uniform(1.1, 1.8)
    return sign * large * (step(first, first_width) - answer * step(second, second_width))
