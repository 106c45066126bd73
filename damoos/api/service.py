"""Policies in service for people at a Python prompt: on one machine, and rolled out on many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from damoos.api import words
from damoos.api.studies import RESULTS
from damoos.dispatch.ray_address import RayCluster
from damoos.errors import ConfigError
from damoos.rollouts import conduct
from damoos.rollouts.overview import hosts
from damoos.rollouts.rollout import Rollout, describe, load
from damoos.service import guard, keeper, listing
from damoos.service.journal import UNDO, Journal
from damoos.service.specification import specification, would_be_here

if TYPE_CHECKING:
    import pandas as pd

    from damoos.report.charts import Chart

BAKE, WINDOW = "1h", f"{guard.WINDOW_S:g}s"


class InService:
    """A policy that a keeper process has in force, under its guard, also when Python has ended.

    Parameters
    ----------
    name : str
    machine : str
    results : Path
    """

    def __init__(self, name: str, machine: str, results: Path) -> None:
        self.name = name
        self._journal = Journal.of(results, machine)
        self._results = results

    @property
    def state(self) -> dict[str, Any]:
        """How it is now; with ``failed`` if its guard or somebody else has ended it, empty once it is stopped."""
        return listing.listed(self._results).get(self.name, {})

    @property
    def windows_df(self) -> pd.DataFrame:
        """What its guard has measured, a row per window.

        ``at_s`` (its end, seconds since 1970), ``paused``, ``net_bytes``, ``rss_bytes``, ``min_age_us`` where it
        adapts, and a column for each metric that the guard watches.
        """
        import pandas as pd

        rows = []
        for window in self._journal.windows(self.name):
            watched = window.pop("watched")
            rows.append(window | watched)
        return pd.DataFrame(rows)

    def stop(self) -> None:
        """Take it off, and wait until its machine is as it was before."""
        keeper.stop(self._results, self.name)

    def __repr__(self) -> str:
        """One line on how it is."""
        state = self.state
        return listing.describe(self.name, state) if state else f"{self.name}: not in service"


@words.checked
def apply(
    study: str,
    *,
    on: str | None = None,
    arm: str = "tuned",
    machine: str | None = None,
    name: str | None = None,
    guards: Sequence[str] = (),
    window: str = WINDOW,
    metrics: Sequence[str] = (),
    adapt: bool = False,
    on_exit: str = UNDO,
    results: Path = RESULTS,
    storage: str | None = None,
) -> InService:
    """Put a study's policy into service; returns once it is in force. ``damoos apply`` does the same.

    Parameters
    ----------
    study : str
        Name of a study whose validation is done.
    on : str or None
        ``unit:redis.service``, ``cgroup:/PATH``, ``pid:7``, ``pid-file:/PATH``, ``match:exe=NAME`` or ``machine``; None
        starts the study's workload.
    arm : {"tuned", "manual", "none"}
        none only watches.
    machine : str or None
        Name or TOML file; None for the study's, unless that is this host, which must be named: ``local``.
    name : str or None
        In service; None for one that is made of ``on``.
    guards, metrics : sequence of str
        Limits such as ``"memory_pressure<=1%"``, and what else they are on: ``"p99_ms=cmd:..."``.
    window : str, time
        For how long something is measured before it is judged.
    adapt : bool
        Move the scheme's min_age when the workload changes.
    on_exit : {"undo", "keep"}
        What becomes of it if its keeper ends.

    Raises
    ------
    ConfigError : words that cannot be
    NothingFeasible : the validation found that the policy breaks the limits
    DamoosError : whatever kept it from getting into force
    """
    spec = specification(
        study, results, storage, arm=arm, machine=machine, on=on, label=name, guards=guards,
        window_s=words.positive_s(window, "--window"), metrics=metrics, adapt=adapt, on_exit=on_exit,
    )  # fmt: skip
    if machine is None and (what := would_be_here(spec)):
        raise ConfigError(f"{what}; give machine={spec['machine']!r} if it is to, or the name of another machine")
    keeper.apply(spec)
    return InService(spec["name"], spec["machine"], results)


class RolledOut:
    """A rollout: how far it has come, and what its steps have shown.

    Parameters
    ----------
    rollout : Rollout
    """

    def __init__(self, rollout: Rollout) -> None:
        self.rollout = rollout
        self.name = rollout.name

    @property
    def state(self) -> str:
        """``done``, ``held`` (somebody has to say how it goes on), ``undone``, ``running`` or ``undoing``."""
        return str(self._now().progress.state)

    @property
    def why(self) -> str:
        """Why it is held, or was undone."""
        return self._now().progress.why

    @property
    def findings_df(self) -> pd.DataFrame:
        """What each step has shown, a row per step and metric.

        ``step`` (from 1), ``metric``, ``standing`` (shown, unclear, broken), ``mean``, ``lower``, ``upper`` (what the
        policy adds to the metric, and bounds that hold at all looks; of ``saving`` a share of the memory), ``bound``,
        ``nr_windows``.
        """
        import pandas as pd

        findings = self._now().progress.findings
        return pd.DataFrame([{"step": nth, **one} for nth, of_step in enumerate(findings, 1) for one in of_step])

    @property
    def hosts_df(self) -> pd.DataFrame:
        """Who has what since when, a row per host, in the order in which they get the policy.

        ``host``, ``has`` (policy, watched or nothing), ``state``, ``since``, ``before_bytes``, ``now_bytes`` (net
        memory), ``saving`` (a share), ``is_unlike`` (whether the policy does something else to it than to the others).
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "host": host.machine, "has": str(host.part) if host.part else None, "state": host.state,
                "since": host.since, "before_bytes": host.before_bytes, "now_bytes": host.now_bytes,
                "saving": host.saving, "is_unlike": host.is_unlike,
            }
            for host in hosts(self._now())
        )  # fmt: skip

    def plot(self) -> Chart:
        """Net memory of each host over time, as a share of what it had before."""
        from damoos.report.html import rollout as page

        return page.chart(self._now())

    def resume(self, event: Callable[[str], Any] = print) -> RolledOut:
        """Go on with it, until it is done, undone or held."""
        conduct.run(self._now(), event)
        return self

    def undo(self, event: Callable[[str], Any] = print) -> RolledOut:
        """Take the policy off all hosts."""
        conduct.undo(self._now(), event)
        return self

    def _now(self) -> Rollout:
        """State of the rollout by its folder, whoever drives it."""
        found = load(self.rollout.results, self.name)
        found.cluster = self.rollout.cluster
        return found

    def __repr__(self) -> str:
        """One line on how far it has come."""
        return describe(self._now())


@words.checked
def rollout(
    study: str,
    machines: Sequence[str],
    on: str,
    *,
    arm: str = "tuned",
    name: str | None = None,
    steps: str = "1,10%,50%,100%",
    bake: str = BAKE,
    tolerance: str = "10%",
    least_saving: str = "0%",
    seed: int = 0,
    guards: Sequence[str] = (),
    window: str = WINDOW,
    metrics: Sequence[str] = (),
    ray: str | None = None,
    insecure_cluster: bool = False,
    event: Callable[[str], Any] = print,
    results: Path = RESULTS,
    storage: str | None = None,
) -> RolledOut:
    """Put a study's policy on many machines, step by step, each proven beside machines without it.

    Returns when it is done, undone or held. ``damoos rollout`` does the same.

    Parameters
    ----------
    study : str
    machines : sequence of str
        Names or TOML files, equal ones or nearly.
    on : str
        As of `apply`; not a process id.
    steps : str
        How many machines have it after each step, or shares of all.
    bake : str, time
        For how long a step is watched; half as long before it.
    tolerance, least_saving : str, percent
        By which share of a limit the policy may bring its metric nearer to it; share of the memory that it must save
        more than.
    seed : int
        Of the order in which the machines get it.
    ray : str or None
        ``auto`` or ``HOST:PORT``: a Ray cluster whose nodes keep the machines that they offer; None for keepers here.
    insecure_cluster : bool
        Whether that cluster may be one that asks for no token.
    event : callable
        Told each decision in a line.

    Raises
    ------
    ConfigError : words that cannot be, or something of this name is in service already
    NothingFeasible : the study's validation found that the policy breaks the limits
    """
    begun = conduct.begin(
        study, list(machines), on, results, storage, arm=arm, label=name, steps=steps,
        bake_s=words.positive_s(bake, "--bake"), tolerance=words.share(tolerance, "--tolerance"),
        least_saving=words.share(least_saving, "--least-saving"), seed=seed, guards=guards,
        window_s=words.positive_s(window, "--window"), metrics=metrics, ray=ray,
        insecure_cluster=insecure_cluster,
    )  # fmt: skip
    return RolledOut(begun).resume(event)


@words.checked
def load_rollout(
    name: str, *, ray: str | None = None, insecure_cluster: bool = False, results: Path = RESULTS
) -> RolledOut:
    """A rollout by its name.

    Parameters
    ----------
    ray : str or None
        ``auto`` or ``HOST:PORT``: the Ray cluster of its keepers; None for the one of ``damoos cluster up`` or of the
        variable ``RAY_ADDRESS``.
    insecure_cluster : bool
        Whether that cluster may be one that asks for no token.

    Raises
    ------
    ConfigError : there is no such
    """
    found = load(results, name)
    found.cluster = RayCluster.named(ray, insecure_cluster)
    return RolledOut(found)
