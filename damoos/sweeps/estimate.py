"""How long a sweep will take, from the work of one run of each workload."""

from __future__ import annotations

from typing import Any

from damoos.machines import prices
from damoos.sweeps.config import SweepConfig
from damoos.workloads import catalog as workloads


def estimate(config: SweepConfig) -> list[dict[str, Any]]:
    """What a sweep will take, by machine, before it starts: runs, hours, money.

    Hours count each run at its workload's unit work time; set-ups and rounds beyond the second come on top. Money is
    None where nobody said a price.

    Returns
    -------
    list of dict
        ``machine, studies, trials, runs, hours, usd_hour, usd``
    """
    runs = config.configs()[0].nr_runs
    work_s = sum(workloads.find(name)[1].tune.tuning().unit_work_s for name in config.workloads)
    rows = []
    for name in config.machines:
        usd_hour = prices.price_hour(name)
        hours = runs * work_s / 3600
        rows.append(
            {
                "machine": name,
                "studies": len(config.workloads),
                "trials": len(config.workloads) * config.configs()[0].nr_steps,
                "runs": len(config.workloads) * runs,
                "hours": hours,
                "usd_hour": usd_hour,
                "usd": None if usd_hour is None else hours * usd_hour,
            }
        )
    return rows
