"""Scores: pure functions of a measurement and its baseline. One file each; plugins join by entry point."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from damoos.common import plugins
from damoos.common.unpack import MALFORMED, in_short
from damoos.errors import ConfigError, nearest
from damoos.scorers.base import Scorer
from damoos.scorers.cost import CostScorer
from damoos.scorers.daos import DaosScorer
from damoos.scorers.foreign import FileScorer, ProgramScorer
from damoos.scorers.limited import OtherLimits
from damoos.scorers.plugin import PluginScorer
from damoos.scorers.psi import PsiScorer
from damoos.scorers.sla import SlaScorer
from damoos.scorers.weighted import WeightedScorer

SCORERS: dict[str, type[Scorer]] = {
    "daos": DaosScorer,
    "sla": SlaScorer,
    "weighted": WeightedScorer,
    "cost": CostScorer,
    "psi": PsiScorer,
}


def is_foreign(name: str) -> bool:
    """Whether a name is that of a file: ``my_sla.py:score``, ``./sf.sh``."""
    return ".py:" in name or "/" in name


def reads_file(name: str, options: Mapping[str, Any]) -> bool:
    """Whether a score is of a file: it is one, or an option names one.

    Whoever looks at a study does not read such a file, as the study's store may be another person's.
    """
    kind = SCORERS.get(name, Scorer)
    return is_foreign(name) or any(isinstance(options.get(option), str) for option in kind.file_options)


def resolved(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options with what the files say that they name; the user has just named these files.

    Raises
    ------
    ConfigError : such a file cannot be read
    """
    return SCORERS.get(name, Scorer).resolved(options)


def scorer(name: str, options: Mapping[str, Any] | None = None, limits: Sequence[str] = ()) -> Scorer:
    """A scorer by its short name, by ``FILE.py:FUNCTION`` or by the path of a program.

    Parameters
    ----------
    options : mapping
        Keyword arguments of the scorer.
    limits : sequence of str
        In place of the scorer's own on the same terms.

    Raises
    ------
    ConfigError : no such scorer, or an option that it does not take
    PluginError : one of a plugin, or of a file, that fails
    """
    kind: type[Scorer]
    if ".py:" in name:
        kind = FileScorer
    elif is_foreign(name):
        kind = ProgramScorer
    else:
        kind = plugins.find("scorers", name, SCORERS)
    arguments = dict(options or {})
    takes = _options(kind)
    for option in arguments:
        if takes is not None and option not in takes:
            hint = nearest(option, takes) if takes else f"; it takes none{_takers(option)}"
            raise ConfigError(f"score '{name}' has no option '{option}'{hint}")
    found: Scorer
    if is_foreign(name):
        found = kind(path=absolute(name), **arguments)  # type: ignore[call-arg]
    elif name in SCORERS:
        try:
            found = kind(**arguments)
        except MALFORMED as error:  # of a study that somebody else has written: a command line has texts only
            raise ConfigError(f"score '{name}': options that it does not take ({in_short(error)})") from None
    else:
        own = plugins.make("scorers", name, SCORERS, Scorer, **arguments)  # type: ignore[type-abstract]
        found = PluginScorer(name, own)
    return with_limits(found, limits)


def with_limits(scorer: Scorer, limits: Sequence[str]) -> Scorer:
    """A scorer with other limits, in place of its own on the same terms; itself without any."""
    return OtherLimits(scorer, limits) if limits else scorer


def _takers(option: str) -> str:
    """Which of damoos's own scorers take an option."""
    names = sorted(name for name, kind in SCORERS.items() if option in (_options(kind) or ()))
    return f" ({', '.join(names)} take it)" if names else ""


def _options(kind: Callable[..., Any]) -> list[str] | None:
    """What a scorer takes; None where Python cannot tell, as of some that are written in C."""
    try:
        return [parameter for parameter in inspect.signature(kind).parameters if parameter != "path"]
    except (TypeError, ValueError):
        return None


def absolute(name: str) -> str:
    """The name with the full path of its file, so that it means the same from everywhere."""
    if not is_foreign(name):
        return name
    file, colon, function = name.partition(":") if ".py:" in name else (name, "", "")
    return f"{Path(file).resolve()}{colon}{function}"
