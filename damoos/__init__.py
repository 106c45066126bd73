"""damoos: finds the best data-access-aware memory-management settings for a workload on a machine, and proves it."""

__version__ = "0.1.0"
