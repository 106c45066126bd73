"""How far a fleet can grow on this computer, each figure beside its bound. Rewrites the table of docs/scale.md."""

from __future__ import annotations

import argparse
import os
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from damoos.dispatch.local import LocalDispatcher
from damoos.machines.catalog import machine
from damoos.machines.guest import GuestSession
from damoos.machines.login import log_in, log_out
from damoos.model.space import Param
from damoos.model.trial import Measurement, RawSamples, Run, Score
from damoos.store.artifacts import Artifacts
from damoos.store.studies import Store
from damoos.sweeps.config import SweepConfig
from damoos.sweeps.driver import drive
from damoos.sweeps.sweep import Sweep
from damoos.testing import fleet
from tests.servers import postgresql

PAGE = Path(__file__).parents[2] / "docs/scale.md"
PARAM = Param("min_age", "us", 0, 60_000_000, 100_000)
MEASURED = Measurement({f"metric_{n}": 1.0 * n for n in range(20)}, provenance={"kernel": "x" * 300})


def rss_mib() -> float:
    """Resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)


def swept(machines: int, trials: int, searcher: str, event: Callable[..., None], url: str | None = None) -> float:
    """Seconds that a sweep takes: a study of one workload on each of some machines."""
    names = [f"fake:{number}" for number in range(machines)]
    words = {"searcher": searcher, "repeats": 2, "candidates": 1}
    with tempfile.TemporaryDirectory() as place:
        sweep = Sweep.create(
            Path(place), SweepConfig(["synthetic/hot-cold"], names, {"nr_samples": trials, **words}), url
        )
        dispatcher, begun = LocalDispatcher(), time.perf_counter()
        found = drive(sweep, dispatcher, event, steady_s=0)
        dispatcher.close()
        assert not found["failures"], found["failures"][0]
        return time.perf_counter() - begun


def cost(machines: int, trials: int, searcher: str) -> list[tuple[str, ...]]:
    """What a trial costs when machines take no time, all that belongs to it included; and memory on the way."""
    runs, memory = [0], {}
    every = machines * trials // 5  # runs; a search that ends early has fewer of them

    def event(kind: str, said: dict[str, Any]) -> None:
        runs[0] += kind == "run"
        if kind == "run" and runs[0] % every == 0:
            memory[runs[0]] = rss_mib()

    seconds = swept(machines, trials, searcher, event)
    count = machines * trials
    first, last = min(memory), max(memory)
    grown = memory[last] / memory[first]
    what = f"{count} trials on {machines} machines, `{searcher}`"
    return [
        (f"{what}: driver, store and searcher, of a trial", f"{seconds / count * 1e3:.1f} ms", "6 ms"),
        (f"{what}: the same, of a run ({runs[0]} runs)", f"{seconds / runs[0] * 1e3:.1f} ms", ""),
        (f"{what}: memory at {last} runs, of that at {first}", f"{grown:.2f}", "flat"),
        (f"{what}: memory of the driver in the end", f"{rss_mib():.0f} MiB", ""),
    ]


def busy(machines: int, trials: int, latency_s: float) -> list[tuple[str, ...]]:
    """Share of the machines' time in which they run, from all have begun until the first one is through."""
    os.environ[fleet.SETTINGS] = f'{{"latency_s": {latency_s}}}'
    fleet.BUSY.clear()
    through: list[float] = []

    def event(kind: str, said: dict[str, Any]) -> None:
        if kind == "study" and said["state"] == "done" and not through:
            through.append(time.monotonic())

    swept(machines, trials, "auto", event)
    os.environ[fleet.SETTINGS] = "{}"
    begun = sorted(begin for begin, _ in fleet.BUSY)[machines - 1]
    ran = sum(max(0.0, min(end, through[0]) - max(begin, begun)) for begin, end in fleet.BUSY)
    share = ran / (machines * (through[0] - begun))
    what = f"{machines} machines, runs of {latency_s:g} s ({latency_s / 2:g} to {latency_s * 1.5:g}): time busy"
    return [(what, f"{share:.1%}", "95 %")]


def ray_tune(trials: int) -> float:
    """Seconds of a trial of Ray Tune with Optuna's sampler, of an objective that does nothing."""
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"
    import ray
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", object_store_memory=80 << 20
    )

    def objective(config: dict[str, int]) -> dict[str, float]:
        return {"score": -abs(config["min_age_us"] - 7_000_000) / 1e6}

    with tempfile.TemporaryDirectory() as place:
        tuner = tune.Tuner(
            objective,
            param_space={"min_age_us": tune.quniform(0, 60_000_000, 100_000)},
            tune_config=tune.TuneConfig(search_alg=OptunaSearch(), metric="score", mode="max", num_samples=trials),
            run_config=tune.RunConfig(storage_path=place, verbose=0),
        )
        begun = time.perf_counter()
        results = tuner.fit()
        seconds = time.perf_counter() - begun
        assert len(results) == trials
        assert not results.errors
    ray.shutdown()
    return seconds / trials


def beside_ray_tune(trials: int) -> list[tuple[str, ...]]:
    """The same search for the best age of a no-op, by Ray Tune and by damoos."""
    ours = swept(trials // 10, 10, "optuna:tpe", lambda kind, said: None) / trials
    theirs = ray_tune(trials)
    return [
        (f"a no-op trial of Ray Tune with Optuna ({trials} trials)", f"{theirs * 1e3:.0f} ms", ""),
        (f"a no-op trial of damoos with Optuna's TPE ({trials} trials)", f"{ours * 1e3:.1f} ms", ""),
        ("Ray Tune against damoos", f"{theirs / ours:.0f} times", "50 times"),
    ]


def stores() -> list[tuple[str, ...]]:
    """What a store takes for a study, a trial and a baseline, and for raw samples."""
    with tempfile.TemporaryDirectory() as files, postgresql() as url:
        rows = store_rows("SQLite", Store(Path(files)))
        rows += store_rows("PostgreSQL on the same computer", Store(Path(files), url))
        samples = RawSamples(("t_s", "rss_bytes"), tuple((n / 2, 1e8) for n in range(200)))
        artifacts = Artifacts(Path(files))
        written = [timed(partial(artifacts.write_samples, f"run-{n}", samples)) for n in range(50)]
        rows.append(("raw samples of a run of 100 s, as Parquet", f"{statistics.median(written) * 1e3:.1f} ms", ""))
    return rows


def store_rows(name: str, store: Store) -> list[tuple[str, ...]]:
    """The same of one store."""
    made = [timed(partial(store.ensure, f"s{n}", {}, "maximize", "now")) for n in range(20)]
    add, point = store.ensure("s0", {}, "maximize", "now").add, {PARAM.key: 0}
    score = Score(0.0, feasible=True)
    trials = [timed(partial(add, Run(n, "trial", n, "", point, MEASURED), score, (PARAM,))) for n in range(200)]
    others = [timed(partial(add, Run(n, "baseline", n, "", None, MEASURED))) for n in range(100)]
    return [
        (f"{name}: {what}", f"{statistics.median(times) * 1e3:.1f} ms", "")
        for what, times in (("a new study", made), ("a trial", trials), ("another run", others))
    ]


def timed(job: Callable[[], object]) -> float:
    """Seconds of one call."""
    begun = time.perf_counter()
    job()
    return time.perf_counter() - begun


def sessions(count: int) -> list[tuple[str, ...]]:
    """What SSH connections cost the process that holds them."""
    guest = machine("guest", "damoos").open()
    assert isinstance(guest, GuestSession)
    endpoint = guest.expose()
    held: list[Any] = []
    times, before = [], rss_mib()
    try:
        for _ in range(count):
            times.append(timed(lambda: held.append(log_in(endpoint))))
        each = (rss_mib() - before) / count
    finally:
        for one in held:
            log_out(one)
        guest.close()
    return [
        ("an SSH connection: memory of the driver", f"{each * 1024:.0f} KiB and a thread", ""),
        ("an SSH connection: time to log in to an emulated guest", f"{statistics.median(times):.2f} s", ""),
    ]


def table(rows: list[tuple[str, ...]]) -> str:
    lines = ["| what | measured | bound |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--machines", type=int, default=1000)
    options.add_argument("--trials", type=int, default=10, help="of each machine")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        fleet.plugin(Path(place))
        os.environ[fleet.SETTINGS] = "{}"
        rows = [
            *cost(asked.machines, asked.trials, "random"),
            *cost(asked.machines, asked.trials, "auto"),
            *busy(asked.machines, 3, 10.0),
            *stores(),
            *sessions(8),
            *beside_ray_tune(50),
        ]
    made = table(rows)
    print(made)
    if (asked.machines, asked.trials) == (1000, 10):
        host = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {date.today()}"
        text = PAGE.read_text()
        between = f"<!-- measured: begin -->\n{host}\n\n{made}\n<!-- measured: end -->"
        PAGE.write_text(
            re.sub(r"<!-- measured: begin -->.*<!-- measured: end -->", lambda _: between, text, flags=re.S)
        )


if __name__ == "__main__":
    main()
