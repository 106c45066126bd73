"""Surfaces of real programs: what a recording lets one expect of each scheme, taken for the truth.

What is found on them says how a search fares on curves of the shape of real ones. How well the recording foretells a
run of its program is another question (docs/monitoring.md).
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np

from damoos.bench.surfaces import TEMPLATES, TUNABLES, Surface
from damoos.errors import ConfigError
from damoos.model.space import Params, Space, parse_param
from damoos.model.trial import Measurement
from damoos.prediction.forecast import basis
from damoos.prediction.prior import Prediction
from damoos.prediction.reclaim import Bounds
from damoos.recordings import files
from damoos.study.config import PRCL

# Standard deviation of the logarithm of a run's time; one recording knows of no other run. Of memory a third of it.
NOISE = 0.01
MOST_PARAMS = 4


def surface(name: str | Path, results: Path, nr_params: int = 1) -> Surface:
    """The surface of a recording.

    Parameters
    ----------
    name : str or Path
        As for `damoos.recordings.files.find`.
    results : Path
    nr_params : int
        1 for ``min_age`` alone, where ``damoos predict`` tells of it; up to 4 for ``max_freq``, ``quota_sz`` and
        ``min_size``, too.

    Raises
    ------
    ConfigError : there is no such recording, or it is not one of damoos's; or it tells nothing of so many parameters
    """
    if not 1 <= nr_params <= MOST_PARAMS:
        raise ConfigError(f"--params {nr_params}: a recording tells of 1 to {MOST_PARAMS} parameters")
    recording = files.read(files.find(name, results))
    prediction, base = basis(recording)
    base_s, most_bytes = base.metric("runtime_s"), base.metric("rss_max_bytes")
    monitoring_s = prediction.runtime_s - base_s
    low_us, high_us = recording.about["low_us"], recording.about["high_us"]
    texts = f"min_age={low_us}us:{high_us}us", *TUNABLES[1:nr_params]
    params = tuple(parse_param(text, recording.attrs.aggr_us) for text in texts)

    @cache
    def played(bounds: Bounds) -> Prediction:
        return prediction if bounds == Bounds() else Prediction.of(
            recording, prediction.cost, prediction.runtime_s, low_us, high_us, bounds
        )  # fmt: skip

    def mean(point: Params | None) -> Measurement:
        if point is None:
            return base
        bounds = Bounds(
            point.get("max_freq_percent", 0) / 100, int(point.get("min_size_bytes", 0)),
            point.get("quota_sz_bytes", math.inf),
        )  # fmt: skip
        saving, peak, longer_s = (float(one[0]) for one in played(bounds).at(np.array([point["min_age_us"]])))
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

    template = TEMPLATES[nr_params - 1] if nr_params > 1 else PRCL
    return Surface(str(name), Space(template, params), run, mean, noise=NOISE)
