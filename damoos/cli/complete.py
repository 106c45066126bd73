"""What a shell offers for a half-typed name. Runs at every press of the Tab key: only names of files are looked at.

A shell puts what is offered into the command line as it is, and zsh evaluates it before that. So whatever a shell could
take for more than a word is not offered, see `is_offered`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import typer

from damoos.common import paths
from damoos.errors import ConfigError
from damoos.ownership import objection_to_use

# Letters and signs that no shell expands, whether quoted or not. The first is not one of those by which a shell or
# damoos takes a word for something else: an option (-), a program's path (=), a comment.
_WORD = re.compile(r"[A-Za-z0-9._/][A-Za-z0-9._:@,+/=-]*")
Names = Callable[[typer.Context, str], list[str]]
# As in damoos.searchers, damoos.scorers and damoos.policies, whose import takes longer than people wait for a Tab (a
# test compares).
SEARCHERS = ("anneal", "auto", "bayes", "daos", "grid", "random")
SCORERS = ("cost", "daos", "psi", "sla", "weighted")
POLICIES = (
    "all-fast", "all-slow", "autonuma", "dama", "damon-lru-sort", "damon-reclaim", "damon-tiers", "damos-psi", "gswap",
    "interleave", "kloc-files", "memory-high", "mglru", "naive", "oomd", "senpai", "senpai-high", "senpai-tiers",
    "swappiness", "thp", "tpp", "zswap-shrinker",
)  # fmt: skip


def choices(*words: str) -> Names:
    """For an option that takes one of a few words."""

    def fitting(context: typer.Context, incomplete: str) -> list[str]:
        return _fitting(words, incomplete)

    return fitting


formats = choices("text", "json")
# As in damoos.workloads.suites and damoos.policies.named.
SUITES = ("cassandra", "duckdb", "parsec3", "spark", "splash2x", "splash3", "ycsb")
CONFIGS = ("baseline", "containers", "prec", "rec", "thp")  # and the schemes that come with damoos


def configurations(context: typer.Context, incomplete: str) -> list[str]:
    """Configurations of an evaluation that have a name."""
    schemes = (path.stem for path in paths.data("schemes").glob("*.damos"))
    return _fitting((*CONFIGS, *POLICIES, *schemes), incomplete)


def kernels(context: typer.Context, incomplete: str) -> list[str]:
    """Kernels that are in the cache, and those that can be fetched."""
    names: list[str] = []
    with suppress(ConfigError):  # the cache is another user's, which commands say
        names = [path.name for path in (paths.cache() / "kernels/names").glob("*") if not path.name.startswith(".")]
    return _fitting(("debian", "debian-newest", *names), incomplete)


def workloads(context: typer.Context, incomplete: str) -> list[str]:
    """Workloads of the catalogue."""
    folder = paths.data("workloads")
    return _fitting((str(path.relative_to(folder).with_suffix("")) for path in folder.glob("*/*.toml")), incomplete)


def machines(context: typer.Context, incomplete: str) -> list[str]:
    """Machines that come with damoos."""
    return _fitting([*(path.stem for path in paths.data("machines").glob("*.toml")), "local"], incomplete)


def searchers(context: typer.Context, incomplete: str) -> list[str]:
    """Searchers, those of plugins among them."""
    return _fitting([*SEARCHERS, *_plugins("searchers")], incomplete)


def scorers(context: typer.Context, incomplete: str) -> list[str]:
    """Scorers, those of plugins among them."""
    return _fitting([*SCORERS, *_plugins("scorers")], incomplete)


def policies(context: typer.Context, incomplete: str) -> list[str]:
    """Policies whose parameters can be tuned, and schemes."""
    return _fitting(["damos", *POLICIES, *_plugins("policies")], incomplete)


def studies(context: typer.Context, incomplete: str) -> list[str]:
    """Studies of the results folder: its folders that have been written to by a study."""
    others = {*_folders(context, "sweep.json"), *_folders(context, "rollout.json")}
    return _fitting((folder.name for folder in _folders(context, ".lock") if folder not in others), incomplete)


def sweeps(context: typer.Context, incomplete: str) -> list[str]:
    """Sweeps of the results folder."""
    return _fitting((folder.name for folder in _folders(context, "sweep.json")), incomplete)


def rollouts(context: typer.Context, incomplete: str) -> list[str]:
    """Rollouts of the results folder."""
    return _fitting((folder.name for folder in _folders(context, "rollout.json")), incomplete)


def studies_and_sweeps(context: typer.Context, incomplete: str) -> list[str]:
    """Both."""
    return sorted(studies(context, incomplete) + sweeps(context, incomplete))


def resumable(context: typer.Context, incomplete: str) -> list[str]:
    """Studies, sweeps and rollouts."""
    return sorted(studies_and_sweeps(context, incomplete) + rollouts(context, incomplete))


def served(context: typer.Context, incomplete: str) -> list[str]:
    """What is in service from the results folder, or was and failed."""
    files = (file for end in ("json", "state") for file in _found(context, f"service/*/[!.]*.{end}"))
    return _fitting((file.stem for file in files), incomplete)


def stoppable(context: typer.Context, incomplete: str) -> list[str]:
    """What is in service, and rollouts."""
    return sorted(served(context, incomplete) + rollouts(context, incomplete))


def watchable(context: typer.Context, incomplete: str) -> list[str]:
    """What is in service, rollouts and sweeps."""
    return sorted(stoppable(context, incomplete) + sweeps(context, incomplete))


def recordings(context: typer.Context, incomplete: str) -> list[str]:
    """Recordings of the results folder, those of killed runs among them."""
    return _fitting((folder.name for folder in _folders(context, "recording.*")), incomplete)


def several(names: Names) -> Names:
    """For an option that takes names separated by commas: completes the last one."""

    def last(context: typer.Context, incomplete: str) -> list[str]:
        before, comma, word = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in names(context, word) if name not in taken]

    return last


def is_offered(name: str) -> bool:
    """Whether a shell takes a name for a word and nothing else; names come from files of other people, too."""
    return _WORD.fullmatch(name) is not None


def _fitting(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in set(names) if name.startswith(incomplete) and is_offered(name))


def _plugins(group: str) -> list[str]:
    from importlib.metadata import entry_points

    return [point.name for point in entry_points(group=f"damoos.{group}")]


def _folders(context: typer.Context, having: str) -> list[Path]:
    return [file.parent for file in _found(context, f"*/{having}")]


def _found(context: typer.Context, pattern: str) -> list[Path]:
    """Files of the results folder; none where another user could have put them there."""
    results = Path(context.params.get("results") or "results")
    return [] if objection_to_use(results) else list(results.glob(pattern))
