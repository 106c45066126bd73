"""damoos: finds the best data-access-aware memory-management settings for a workload on a machine, and proves it."""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "tune": "damoos.api",
    "sweep": "damoos.api",
    "record": "damoos.api",
    "predict": "damoos.api",
    "load_study": "damoos.api",
    "load_sweep": "damoos.api",
    "load_recording": "damoos.api",
    "evaluate": "damoos.sidebyside",
    "compare": "damoos.sidebyside",
    "Scheme": "damoos.damon.scheme",
    "Space": "damoos.model.space",
    "plot_study": "damoos.plots",
    "plot_memory": "damoos.plots",
    "plot_sweep": "damoos.plots",
    "plot_curves": "damoos.plots",
    "plot_compare": "damoos.plots",
    "plot_configs": "damoos.plots",
    "plot_heatmap": "damoos.plots",
    "plot_wss": "damoos.plots",
    "plot_regions": "damoos.plots",
    "plot_recency": "damoos.plots",
    "plot_idle_time": "damoos.plots",
    "plot_prediction": "damoos.plots",
}
__all__ = ["__version__", *_HOMES]  # what a type checker sees of them is in __init__.pyi


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the agent and ``--help`` need none of them."""
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(name)
