"""How long a sweep will take, from the work of one run of each workload."""

from __future__ import annotations

from typing import Any

from damoos.machines import prices
from damoos.sweeps.config import SweepConfig
from damoos.workloads import catalog as workloads


def estimate(config: SweepConfig) -> list[dict[str, Any]]:
    """What a sweep will take, by machine, before it starts: runs, hours, money.

    Hours count each run at its workload's unit work time, the model's where there is a model (``hours``) and the real
    program's (``hours_real``); set-ups and rounds beyond the second come on top. Money is None where nobody said a
    price.

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
