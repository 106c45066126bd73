"""damoos: finds the best data-access-aware memory-management settings for a workload on a machine, and proves it."""

from __future__ import annotations

from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "tune": "damoos.api",
    "sweep": "damoos.api",
    "record": "damoos.api",
    "predict": "damoos.api",
    "load_study": "damoos.api",
    "load_sweep": "damoos.api",
    "load_recording": "damoos.api",
    "evaluate": "damoos.api.comparisons",
    "compare": "damoos.api.comparisons",
    "Scheme": "damoos.damon.scheme",
    "Space": "damoos.model.space",
    "plot_study": "damoos.api.plots",
    "plot_memory": "damoos.api.plots",
    "plot_sweep": "damoos.api.plots",
    "plot_curves": "damoos.api.plots",
    "plot_compare": "damoos.api.plots",
    "plot_configs": "damoos.api.plots",
    "plot_heatmap": "damoos.api.plots",
    "plot_wss": "damoos.api.plots",
    "plot_regions": "damoos.api.plots",
    "plot_recency": "damoos.api.plots",
    "plot_idle_time": "damoos.api.plots",
    "plot_prediction": "damoos.api.plots",
}
__all__ = ["__version__", *_HOMES]  # what a type checker sees of them is in __init__.pyi


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the agent and ``--help`` need none of them."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(name)
