"""What a sweep is: every workload on every machine, a study each; its plan, its folder, its result."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from damoos import scorers
from damoos.errors import ConfigError, StoreError, nearest
from damoos.machines import catalog as machines
from damoos.machines import prices
from damoos.store.artifacts import Artifacts
from damoos.store.studies import Store, slug
from damoos.study.config import Study, StudyConfig, plain
from damoos.workloads import catalog as workloads

PREFIX = "sweep-"
FILE, RESULT, STATUS = "sweep.json", "result.json", "status.json"


@dataclass(frozen=True)
class SweepConfig:
    """Everything that makes two sweeps the same sweep. Plain values: it is stored as JSON.

    Parameters
    ----------
    workloads, machines : sequence of str
        Names or files; no patterns any more.
    nr_samples : int
        Trials of each study; 0 where the studies are listed ones.
    settings : dict
        Further fields of `damoos.study.config.StudyConfig`, for all studies alike.
    """

    workloads: Sequence[str]
    machines: Sequence[str]
    nr_samples: int
    settings: dict[str, Any] = field(default_factory=dict)

    def configs(self) -> list[StudyConfig]:
        """A study of each workload on each machine."""
        return [
            StudyConfig(workload=one, command=None, machine=where, nr_samples=self.nr_samples, **self.settings)
            for one in self.workloads
            for where in self.machines
        ]

    def check(self) -> None:
        """Find every wrong word before a machine is started."""
        for name in self.machines:
            machines.machine(name)
        for name in self.workloads:
            StudyConfig(name, None, self.machines[0], self.nr_samples, **self.settings).check()


def expand(patterns: Sequence[str], known: Sequence[str], option: str) -> list[str]:
    """Names that fit patterns such as ``splash2x/*``, each once, in order; files and inputs are taken as they are.

    Raises
    ------
    ConfigError : nothing fits
    """
    found: list[str] = []
    for pattern in patterns:
        fitting = fnmatch.filter(known, pattern) if any(sign in pattern for sign in "*?[") else [pattern]
        if not fitting:
            raise ConfigError(f"{option}: nothing fits '{pattern}'{nearest(pattern, known)}")
        found += fitting
    if not found:
        raise ConfigError(f"{option} is empty")
    return list(dict.fromkeys(found))


def estimate(config: SweepConfig) -> list[dict[str, Any]]:
    """What a sweep will take, by machine, before it starts: runs, hours, money.

    Hours count each run at its workload's unit work time, the model's where there is a model (``hours``) and the real
    program's (``hours_real``); set-ups and close calls come on top. Money is None where nobody said a price.

    Returns
    -------
    list of dict
        ``machine, studies, trials, runs, hours, hours_real, usd_hour, usd, usd_real``
    """
    runs = config.configs()[0].nr_runs
    short_s = sum(_unit_work_s(name, model=True) for name in config.workloads)
    long_s = sum(_unit_work_s(name, model=False) for name in config.workloads)
    rows = []
    for name in config.machines:
        usd_hour = prices.price_hour(name)
        hours, real = runs * short_s / 3600, runs * long_s / 3600
        rows.append(
            {
                "machine": name,
                "studies": len(config.workloads),
                "trials": len(config.workloads) * config.configs()[0].nr_steps,
                "runs": len(config.workloads) * runs,
                "hours": hours,
                "hours_real": real,
                "usd_hour": usd_hour,
                "usd": None if usd_hour is None else hours * usd_hour,
                "usd_real": None if usd_hour is None else real * usd_hour,
            }
        )
    return rows


def _unit_work_s(name: str, model: bool) -> float:
    file = workloads.find(name)[1]
    scale = file.model.time_scale if model and file.model else 1
    return file.tune.tuning(scale).unit_work_s


class Sweep:
    """A sweep in its folder.

    Parameters
    ----------
    results : Path
    name : str
    url : str or None
        Storage of its studies.
    """

    def __init__(self, results: Path, name: str, url: str | None = None) -> None:
        self.name = name
        self.artifacts = Artifacts(results / name)
        form = _read(results / name / FILE)
        self.config = SweepConfig(**form["config"])
        self.created: str = form["created"]
        self.store = Store(results, url or form["storage"])

    @classmethod
    def create(cls, results: Path, config: SweepConfig, url: str | None = None) -> Sweep:
        """A new sweep with the next free number."""
        name = f"{PREFIX}{max(map(_number, folders(results)), default=0) + 1}"
        form = {"created": datetime.now(UTC).isoformat(), "storage": url, "config": asdict(config)}
        Artifacts(results / name).write_json(FILE, form)
        return cls(results, name, url)

    @classmethod
    def unfinished(cls, results: Path, config: SweepConfig, url: str | None = None) -> Sweep | None:
        """The newest sweep of the same words, if there is something left to do in it, or to try again."""
        for folder in reversed(folders(results)):
            if _read(folder / FILE)["config"] == plain(config):
                found = cls(results, folder.name, url)
                return found if found.result is None or found.result["failures"] else None
        return None

    def study_name(self, config: StudyConfig) -> str:
        """Name of one of its studies."""
        return f"{self.name}-{slug(config.label)}"

    def study(self, config: StudyConfig) -> Study:
        """One of its studies, made when it is first asked for."""
        direction = scorers.scorer(config.scorer, config.scorer_options).direction
        now = datetime.now(UTC).isoformat()
        return Study(self.store.ensure(self.study_name(config), plain(config), direction, now))

    def finished(self, study: str) -> dict[str, Any] | None:
        """Result of one of its studies by name; None if it has none yet, or was never begun."""
        record = self.store.look(study)
        return record.result if record else None

    @contextmanager
    def driving(self) -> Iterator[None]:
        """Hold the right to drive it.

        Raises
        ------
        StoreError : another process has it
        """
        with self.artifacts.held(f"sweep '{self.name}' is being driven by another damoos process"):
            yield

    def driven(self) -> bool:
        """Whether a process of this computer drives it now."""
        return self.artifacts.in_use()

    @property
    def status(self) -> dict[str, Any]:
        """What its driver last said of it."""
        path = self.artifacts.path / STATUS
        return _read(path) if path.exists() else {"sweep": self.name, "studies": []}

    @property
    def result(self) -> dict[str, Any] | None:
        """What it has come to; None while there is more to do."""
        path = self.artifacts.path / RESULT
        return _read(path) if path.exists() else None


def folders(results: Path) -> list[Path]:
    """Folders of the sweeps in a results folder, oldest first."""
    found = (one.parent for one in results.glob(f"{PREFIX}*/{FILE}"))
    return sorted((one for one in found if one.name.removeprefix(PREFIX).isdigit()), key=_number)


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix(PREFIX))


def load(results: Path, name: str, url: str | None = None) -> Sweep:
    """A sweep by its name.

    Raises
    ------
    ConfigError : no such sweep
    """
    known = [one.name for one in folders(results)]
    if name not in known:
        hint = nearest(name, known) if known else "; there are no sweeps yet"
        raise ConfigError(f"unknown sweep '{name}'{hint}")
    return Sweep(results, name, url)


def newest(results: Path) -> str:
    """Name of the newest sweep.

    Raises
    ------
    ConfigError : there are none
    """
    found = folders(results)
    if not found:
        raise ConfigError(f"there are no sweeps in {results} yet")
    return found[-1].name


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise StoreError(f"{path}: {error}") from None
    return found
