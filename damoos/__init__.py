"""damoos: finds the best data-access-aware memory-management settings for a workload on a machine, and proves it."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # without an import: what attaches to an agent in waiting must start fast
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.2.0"

_HOMES = {
    "tune": "damoos.api",
    "validate": "damoos.api",
    "sweep": "damoos.api",
    "record": "damoos.api",
    "predict": "damoos.api",
    "load_study": "damoos.api",
    "load_sweep": "damoos.api",
    "load_recording": "damoos.api",
    "evaluate": "damoos.api.comparisons",
    "compare": "damoos.api.comparisons",
    "league": "damoos.api.comparisons",
    "apply": "damoos.api.service",
    "rollout": "damoos.api.service",
    "load_rollout": "damoos.api.service",
    "resume": "damoos.api",
    "Progress": "damoos.study.progress",
    "Scheme": "damoos.damon.scheme",
    "Space": "damoos.model.space",
    "plot_study": "damoos.api.plots",
    "plot_memory": "damoos.api.plots",
    "plot_sweep": "damoos.api.plots",
    "plot_curves": "damoos.api.plots",
    "plot_compare": "damoos.api.plots",
    "plot_configs": "damoos.api.plots",
    "plot_limits": "damoos.api.plots",
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


def _format_in_notebook() -> None:
    """Show schemes and trials as tables in a notebook; the layers that they belong to know no HTML."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None:
        return

    def to_html(value: Any) -> Any:
        import importlib

        return importlib.import_module("damoos.report.values").to_html(value)

    formatter = shell.display_formatter.formatters["text/html"]
    formatter.for_type_by_name("damoos.damon.scheme", "Scheme", to_html)
    formatter.for_type_by_name("damoos.model.trial", "Trial", to_html)


_format_in_notebook()
