"""Policies by the names that people give them: the DAOS paper's configurations, scheme files, a user's own.

A name is resolved once, into plain values that hold the scheme's text: a study that goes on tomorrow does not depend
on a file that was edited since.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from damoos.common import paths
from damoos.damon.damo_json import context_from_json
from damoos.damon.scheme import Context
from damoos.errors import ConfigError, SchemeError, nearest
from damoos.policies import catalog
from damoos.policies.base import DamosPolicy, NonePolicy, Policy, ProtectPolicy, RecordPolicy, ThpPolicy
from damoos.policies.containers import ContainersPolicy
from damoos.policies.documents import DOCUMENTS, ENDING, scheme_text
from damoos.units import parse_bytes

BASELINE, THP, CONTAINERS = "baseline", "thp", "containers"
PAPER = (BASELINE, "rec", "prec", THP, "ethp", "prcl")
"""The six configurations of the DAOS paper's Figure 7, in its order."""
# What a name stands for that is no scheme file: arguments of `policy`.
_BUILT_IN: dict[str, dict[str, str]] = {
    BASELINE: {},
    "rec": {"record": "vaddr"},
    "prec": {"record": "paddr"},
    THP: {"thp": "always"},
    CONTAINERS: {"containers": "own"},
}
# Actions that the kernel's THP mode "never" would turn into nothing.
_OF_THP = ("hugepage", "nohugepage", "collapse")


def names() -> list[str]:
    """Every name that ships with damoos."""
    shipped = sorted(path.stem for path in paths.data("schemes").glob(f"*{ENDING}"))
    return [*_BUILT_IN, *(name for name in catalog.names() if name not in _BUILT_IN), *shipped]


def resolve(
    words: Sequence[str], operations: str = "vaddr", more: Mapping[str, dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Plain form of each configuration by its name, the baseline first, whether it was named or not.

    Parameters
    ----------
    words : sequence of str
        Names, or paths of scheme files (``.damos``, or damo's ``.json`` and ``.yaml``), whose names are their stems.
    operations : str
        Operations set of scheme files.
    more : mapping or None
        Plain forms of words that take more than their names to tell.

    Returns
    -------
    dict
        ``scheme`` (text) and ``operations``, ``thp`` (a THP mode), ``record`` (an operations set),
        ``protect`` (address ranges), ``policy`` (words of a policy with parameters), ``containers`` (that their own
        policies are in force), ``memory`` and ``write_limit`` (limits), as they apply.

    Raises
    ------
    ConfigError : a name that nobody knows, one that is there twice, a file that cannot be read
    SchemeError : a scheme that cannot be; the file is named
    """
    known = {**_BUILT_IN, **(more or {})}
    configs: dict[str, dict[str, Any]] = {BASELINE: {}}
    for word in words:
        name = Path(word).stem if Path(word).suffix in (ENDING, *DOCUMENTS) else word
        if (name in configs and name != BASELINE) or words.count(word) > 1:
            raise ConfigError(f"configuration '{name}' is given twice")
        configs[name] = _form(word, known, operations)
        policy(configs[name])
    return configs


def _form(word: str, known: Mapping[str, dict[str, Any]], operations: str) -> dict[str, Any]:
    if word in known:
        return dict(known[word])
    if catalog.is_rule(word):
        return {"policy": word}
    return _of_file(word, operations)


def limited(configs: Mapping[str, dict[str, Any]], limits: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The baseline, and every configuration under each limit of memory, as ``NAME@LIMIT``.

    Parameters
    ----------
    configs : mapping
        As `resolve` gives them.
    limits : sequence of str
        As for `limits_of`.

    Raises
    ------
    ConfigError : a limit that is neither, or is given twice
    """
    for limit in limits:
        limits_of(limit, 1 << 30)
        if limits.count(limit) > 1:
            raise ConfigError(f"--memory: {limit} is given twice")
    under = {f"{name}@{limit}": {**form, "memory": limit} for limit in limits for name, form in configs.items()}
    return {BASELINE: dict(configs[BASELINE]), **under}


def write_limited(configs: Mapping[str, dict[str, Any]], limit: str) -> dict[str, dict[str, Any]]:
    """All configurations, and behind each that has a policy the same under a limit of writes, as ``NAME@LIMIT/s``.

    Parameters
    ----------
    configs : mapping
        As `resolve` gives them.
    limit : str
        As for `write_limit`.

    Raises
    ------
    ConfigError : it is no size
    """
    under: dict[str, dict[str, Any]] = {}
    for name, form in configs.items():
        under[name] = dict(form)
        if not isinstance(policy(form), NonePolicy):
            under[f"{name}@{limit}/s"] = {**form, "write_limit": write_limit(limit)}
    return under


def write_limit(text: str) -> int:
    """A limit of what is written to swap, in bytes a second: ``1M``.

    Raises
    ------
    ConfigError : it is no size above 0
    """
    return _above_0(text, "--write-limit", text)


def _above_0(words: str, option: str, given: str) -> int:
    """A size in bytes, which words of what was given to an option say."""
    try:
        sz_bytes = parse_bytes(words)
    except ConfigError as error:
        raise ConfigError(f"{option}: {error}") from None
    if not sz_bytes:
        raise ConfigError(f"{option}: '{given}' is not above 0")
    return sz_bytes


HIGH = "high:"
"""Before a limit that is memory.high's."""
PROTECT = "protect:"
"""Before the name of a recording, of which the hot parts are locked."""


def is_share(limit: str) -> bool:
    """Whether a limit of memory is a share of a peak, which a run has to tell."""
    return limit.endswith("%")


def limits_of(limit: str, peak_bytes: float) -> dict[str, int]:
    """A limit of memory in bytes by the name of the file that sets it.

    Parameters
    ----------
    limit : str
        A size, or a share of the baseline's peak such as ``60%``: memory.max. With ``high:`` before it, memory.high.
    peak_bytes : float

    Raises
    ------
    ConfigError : it is neither a size nor a share above 0
    """
    file, words = ("memory.high", limit.removeprefix(HIGH)) if limit.startswith(HIGH) else ("memory.max", limit)
    if not is_share(words):
        return {file: _above_0(words, "--memory", limit)}
    try:
        share = float(words[:-1]) / 100
    except ValueError:
        share = 0.0
    if not 0 < share < math.inf:
        raise ConfigError(f"--memory: '{limit}' is neither a size such as 512M nor a share such as 60%")
    return {file: int(share * peak_bytes)}


def policy(form: Mapping[str, Any]) -> Policy:
    """The policy of a plain form, without the limit of memory that it may have."""
    if "damo" in form:
        return DamosPolicy(context_from_json(form["damo"]))
    if "scheme" in form:
        context = Context.parse(form["scheme"], form["operations"])
        return DamosPolicy(context, thp=form.get("thp"))
    if "policy" in form:
        return catalog.parse(form["policy"])
    if "containers" in form:
        return ContainersPolicy()
    if "protect" in form:
        return ProtectPolicy(tuple((start, end) for start, end in form["protect"]))
    if "record" in form:
        return RecordPolicy(form["record"])
    if "thp" in form:
        return ThpPolicy(form["thp"])
    return NonePolicy()


def _of_file(word: str, operations: str) -> dict[str, str]:
    path = Path(word)
    if path.suffix not in (ENDING, *DOCUMENTS):
        if word not in names():
            raise ConfigError(f"unknown configuration '{word}'{nearest(word, [*names(), f'FILE{ENDING}'])}")
        path = paths.data("schemes") / f"{word}{ENDING}"
    elif path.stem in (*_BUILT_IN, *catalog.names()):
        raise ConfigError(f"{path}: '{path.stem}' is the name of a built-in configuration; give the file another name")
    try:
        context = Context.parse(scheme_text(path), operations)
    except SchemeError as error:
        raise SchemeError(f"{path}: {error}") from None
    if not context.schemes and not context.module:
        raise ConfigError(f"{path}: it holds no scheme")
    # Comments stay in the file: the schemes are what is stored, and what makes two studies the same.
    plain = context if context.module else replace(context, operations="vaddr")
    config = {"scheme": str(plain), "operations": context.operations}
    return config | ({"thp": "madvise"} if any(scheme.action in _OF_THP for scheme in context.schemes) else {})
