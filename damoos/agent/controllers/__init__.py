"""Policies that watch a group and ask the kernel to reclaim, as programs in user space do; a file for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from damoos.agent.controllers.base import Controller
from damoos.agent.controllers.dama import Dama
from damoos.agent.controllers.gswap import Gswap
from damoos.agent.controllers.kloc_files import KlocFiles
from damoos.agent.controllers.mglru import Mglru
from damoos.agent.controllers.oomd import Oomd
from damoos.agent.controllers.senpai import Senpai
from damoos.agent.controllers.senpai_high import SenpaiHigh
from damoos.agent.controllers.senpai_tiers import SenpaiTiers
from damoos.errors import UnsupportedError, nearest

CONTROLLERS: dict[str, type[Controller]] = {
    "senpai": Senpai,
    "senpai-high": SenpaiHigh,
    "senpai-tiers": SenpaiTiers,
    "oomd": Oomd,
    "gswap": Gswap,
    "dama": Dama,
    "mglru": Mglru,
    "kloc-files": KlocFiles,
}


def controller(spec: dict[str, Any], group: Path | None) -> Controller:
    """The controller that a run asks for.

    Parameters
    ----------
    spec : dict
        ``name``, and the values of its parameters.
    group : Path or None
        The cgroup that it is to steer.

    Raises
    ------
    UnsupportedError : there is no such controller, or what it needs of the kernel is missing
    """
    name, values = spec["name"], {key: value for key, value in spec.items() if key != "name"}
    if name not in CONTROLLERS:
        raise UnsupportedError(f"unknown controller '{name}'{nearest(name, CONTROLLERS)}")
    if group is None:
        raise UnsupportedError(f"{name} steers a cgroup, and cgroup v2 is not on /sys/fs/cgroup")
    made = CONTROLLERS[name](group, **values)
    made.check()
    return made
