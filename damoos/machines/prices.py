"""What an hour of a machine costs: rented instances by ``machines/aws/prices.toml``, one's own hardware nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from damoos.common import paths, toml_file
from damoos.common.toml_file import Table


class InstancePrice(Table):
    """``[instances.NAME]``: what one kind of instance costs.

    Parameters
    ----------
    on_demand : float, USD per hour
        The price that always holds.
    spot : float, USD per hour
        That of an instance that may be taken back.
    """

    on_demand: float = Field(ge=0)
    spot: float = Field(ge=0)


class PriceFile(Table):
    """A price file of rented machines, such as ``machines/aws/prices.toml``.

    Parameters
    ----------
    region : str
        Where the prices hold; for people.
    market : {"on_demand", "spot"}
        Which of the two prices is paid.
    instances : tables
        By the name of the machine.
    """

    region: str
    market: Literal["on_demand", "spot"]
    instances: dict[str, InstancePrice]


def price_hour(name: str, file: Path | None = None) -> float | None:
    """USD per hour of a machine.

    Parameters
    ----------
    name : str
        The machine's; an instance's machine is called as the instance is.
    file : Path or None
        A price file; None for the one that comes with damoos.

    Returns
    -------
    float or None
        None where nobody has said a price: hardware of one's own.

    Raises
    ------
    ConfigError : the file is wrong
    """
    prices = _read(file or paths.data("machines") / "aws/prices.toml")
    instance = prices.instances.get(name)
    if instance is None:
        return None
    return instance.spot if prices.market == "spot" else instance.on_demand


@cache
def _read(file: Path) -> PriceFile:
    return toml_file.load(file, PriceFile)


def cost(spent_s: Mapping[str, float], file: Path | None = None) -> list[dict[str, Any]]:
    """What the time that machines were held for has cost.

    Parameters
    ----------
    spent_s : mapping of str to float
        Seconds by machine.

    Returns
    -------
    list of dict
        ``machine, hours, usd_hour, usd``; the last two are None where there is no price.
    """
    rows = []
    for name, seconds in sorted(spent_s.items()):
        usd_hour, hours = price_hour(name, file), seconds / 3600
        usd = None if usd_hour is None else hours * usd_hour
        rows.append({"machine": name, "hours": hours, "usd_hour": usd_hour, "usd": usd})
    return rows
