"""Money: what the saved memory is worth, less what the lost time and the wear of the swap device cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from damoos.common import toml_file
from damoos.common.toml_file import Table, problem
from damoos.errors import ConfigError
from damoos.model.trial import Measurement, Score
from damoos.scorers.base import within
from damoos.scorers.limited import LimitedScorer
from damoos.scorers.terms import slowdown

GIB = 1 << 30
HOURS_A_MONTH = 730
TB = 10**12
# In any currency; products of larger numbers are no numbers any more.
MOST_PRICE = 1e9


class SwapDevice(Table):
    """``[swap_device]``: the device that the kernel swaps to, which wears out as it is written to.

    Parameters
    ----------
    price : float
        Of the device.
    rated_tbw : float, TB
        What may be written to it in its life, as its data sheet says (terabytes written, of 10^12 bytes).
    """

    price: float = Field(ge=0, le=MOST_PRICE)
    rated_tbw: float = Field(gt=0, le=MOST_PRICE)

    def wear(self, written_bytes_per_s: float) -> float:
        """Price of an hour of writing at a rate, in bytes per second."""
        return written_bytes_per_s * 3600 * self.price / (self.rated_tbw * TB)


class Prices(Table):
    """A price file of the score ``cost``.

    Parameters
    ----------
    currency : str
        Only a word for the output.
    gib_hour : float, per GiB and hour
        Price of memory.
    core_hour : float, per core and hour
        Price of a busy core.
    swap_device : table
        What wears out; without it, writes cost nothing.
    """

    currency: str = "$"
    gib_hour: float = Field(ge=0, le=MOST_PRICE)
    core_hour: float = Field(ge=0, le=MOST_PRICE)
    swap_device: SwapDevice | None = None


def read_prices(file: str | Path) -> Prices:
    """The prices of a file that the user names.

    Raises
    ------
    ConfigError : there is no such file, or it is none of prices
    """
    if not Path(file).exists():
        raise ConfigError(f"--prices {file}: there is no such file")
    return toml_file.load(Path(file), Prices)


def _stored(prices: Mapping[str, Any]) -> Prices:
    try:
        return Prices.model_validate(prices)
    except ValidationError as error:
        raise ConfigError(f"score 'cost', prices: {problem(error, Prices, prices)}") from None


_WRITTEN = "swap_written_bytes_per_s"


class CostScorer(LimitedScorer):
    """Money saved per hour of the workload, net of swap; negative where the lost time costs more.

    Cores lost are those that the workload kept busy, times its slowdown, and what kdamond took. Wear is what is written
    to the swap device beyond what the baseline writes to it, as a share of what may be written in the device's life.

    Parameters
    ----------
    prices : str or mapping
        TOML file with ``gib_hour`` and ``core_hour``, ``currency`` if it is not the dollar, and ``[swap_device]`` if
        writes to it cost something; or what such a file has, as a study stores it.
    limits : sequence of str
        As those of `damoos.scorers.sla.SlaScorer`.
    """

    name = "cost"
    unit = "money per hour of the workload"
    file_options = ("prices",)
    needs: tuple[str, ...] = ("runtime_s", "net_avg_bytes", "user_s", "system_s", "kdamond_cpu_s")

    def __init__(self, prices: str | Mapping[str, Any] | None = None, limits: Sequence[str] = ()) -> None:
        if prices is None:
            raise ConfigError("score 'cost' needs --prices FILE, a TOML file with gib_hour and core_hour")
        self._prices = read_prices(prices) if isinstance(prices, str) else _stored(prices)
        super().__init__(limits)
        self.unit = f"{self._prices.currency} per hour of the workload"
        wear = [_WRITTEN] if self._prices.swap_device else []
        self.needs = tuple(dict.fromkeys([*CostScorer.needs, *wear, *self._limits.needs]))

    @classmethod
    def resolved(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with the prices themselves, so that nobody reads the file to look at the study."""
        prices = options.get("prices")
        if not isinstance(prices, str):
            return dict(options)
        return {**options, "prices": read_prices(prices).model_dump(exclude_none=True)}

    def score(self, run: Measurement, baseline: Measurement, previous: Sequence[float]) -> Score:
        """Price of the memory saved less price of the cores lost and of the wear."""
        margins = self._limits.margins(run, baseline)
        saved_gib = (baseline.metric("net_avg_bytes") - run.metric("net_avg_bytes")) / GIB
        for name in ("user_s", "system_s", "kdamond_cpu_s"):
            run.metric(name)
        busy = (baseline.metric("user_s") + baseline.metric("system_s")) / baseline.metric("runtime_s")
        lost_cores = busy * slowdown(run, baseline) + run.metric("kdamond_cpu_s") / run.metric("runtime_s")
        parts = {"memory": saved_gib * self._prices.gib_hour, "cores": -lost_cores * self._prices.core_hour}
        if device := self._prices.swap_device:
            parts["wear"] = device.wear(baseline.metric(_WRITTEN) - run.metric(_WRITTEN))
        return within(parts, margins, self.name)
