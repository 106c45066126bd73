"""Surfaces of real programs: what a recording lets one expect of each ``min_age``, taken for the truth.

What is found on them says how a search fares on curves of the shape of real ones. How well the recording foretells a
run of its program is another question (docs/monitoring.md).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from damoos.bench.surfaces import Surface
from damoos.model.space import Params, Space, parse_param
from damoos.model.trial import Measurement
from damoos.prediction.forecast import basis
from damoos.recordings import files
from damoos.study.config import PRCL

# Standard deviation of the logarithm of a run's time; one recording knows of no other run. Of memory a third of it.
NOISE = 0.01


def surface(name: str | Path, results: Path) -> Surface:
    """The surface of a recording; ``min_age`` is tuned where ``damoos predict`` tells of it.

    Parameters
    ----------
    name : str or Path
        As for `damoos.recordings.files.find`.
    results : Path

    Raises
    ------
    ConfigError : there is no such recording, or it is not one of damoos's
    """
    recording = files.read(files.find(name, results))
    prediction, base = basis(recording)
    base_s, most_bytes = base.metric("runtime_s"), base.metric("rss_max_bytes")
    monitoring_s = prediction.runtime_s - base_s
    low_us, high_us = recording.about["low_us"], recording.about["high_us"]
    param = parse_param(f"min_age={low_us}us:{high_us}us", recording.attrs.aggr_us)

    def mean(point: Params | None) -> Measurement:
        if point is None:
            return base
        saving, peak, longer_s = (float(one[0]) for one in prediction.at(np.array([point["min_age_us"]])))
        return Measurement(
            {
                "runtime_s": base_s + monitoring_s + longer_s,
                "rss_avg_bytes": base.metric("rss_avg_bytes") * (1 - saving),
                "rss_max_bytes": most_bytes * peak,
            }
        )

    def run(point: Params | None, random: np.random.Generator) -> Measurement:
        metrics = mean(point).metrics
        factors = {"runtime_s": math.exp(random.normal(0, NOISE))}
        for metric in ("rss_avg_bytes", "rss_max_bytes"):
            factors[metric] = math.exp(random.normal(0, NOISE / 3))
        return Measurement({metric: metrics[metric] * factor for metric, factor in factors.items()})

    return Surface(str(name), Space(PRCL, (param,)), run, mean, noise=NOISE)
