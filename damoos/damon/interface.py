"""Which of the kernel's interfaces DAMON is driven through: sysfs where there is one, else debugfs."""

from __future__ import annotations

from pathlib import Path

from damoos.damon.debugfs import DebugfsKdamond
from damoos.damon.kdamond import Kdamond, module_that_runs
from damoos.damon.module_kdamond import ModuleKdamond
from damoos.damon.modules import MODULE_WORDS, PARAMETERS
from damoos.damon.sysfs import SysfsKdamond
from damoos.errors import UnsupportedError

INTERFACES: dict[str, type[Kdamond]] = {one.interface: one for one in (SysfsKdamond, DebugfsKdamond)}
"""In the order of preference."""


def names(root: Path = Path("/")) -> list[str]:
    """Interfaces of this kernel, the preferred one first."""
    return [name for name, interface in INTERFACES.items() if interface.is_here(root)]


def kdamond(root: Path = Path("/"), name: str | None = None) -> Kdamond:
    """The kdamond that damoos makes, by the interface or module that is named, or the interface that is preferred here.

    Raises
    ------
    UnsupportedError : the kernel has no DAMON, or none that can be driven
    """
    if name is not None and name in MODULE_WORDS:
        return ModuleKdamond(root, name)
    here = names(root)
    if not here:
        raise UnsupportedError(
            "this kernel has no DAMON sysfs or debugfs (or debugfs is not mounted); CONFIG_DAMON_SYSFS kernels such as"
            " Debian's 6.12 do"
        )
    return INTERFACES[name or here[0]](root)


def used_by_others(root: Path = Path("/")) -> str:
    """What shows that DAMON is in use on this machine; empty if it is free or not there."""
    signs = [INTERFACES[name](root).used_by_others() for name in names(root)]
    return next((sign for sign in [*signs, module_that_runs(root)] if sign), "")


def probe(root: Path = Path("/")) -> dict[str, list[str]]:
    """What this kernel's DAMON offers, found by trying and never by version.

    A kdamond that is never started is made for it and taken away again.

    Returns
    -------
    dict
        ``interfaces``, ``operations``, ``actions``, ``filters``, ``goals``, ``tuners``, ``probe_filters``, ``modules``:
        words.
        ``files``: those of a context, as `damoos.damon.settings.Setting.file` names them. ``unknown``: those of them,
        and operations, that damoos does not know. Empty where there is no DAMON.
    """
    here = names(root)
    if not here:
        return {}
    idle_kdamond = kdamond(root)
    former: dict[str, object] = {}
    idle_kdamond.create(about_to=former.update)
    try:
        offered = {"interfaces": here, **idle_kdamond.features()}
    finally:
        idle_kdamond.remove(former)
    modules = [name for name in MODULE_WORDS if (root / PARAMETERS.format(name)).exists()]
    parameters = [
        f"module/{name}/{path.name}" for name in modules for path in sorted((root / PARAMETERS.format(name)).iterdir())
    ]
    return {**offered, "modules": modules, "files": [*offered["files"], *parameters]}
