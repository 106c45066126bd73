"""What damoos measures of a run: each metric's name, unit and meaning, once.

Runs report them, scores and limits are put on them, tables print them by their units, and docs/studies.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from damoos.model.roles import ROLE_METRICS

BYTES, SECONDS, MICROSECONDS, COUNT, RATE, BYTES_A_SECOND, SHARE = "bytes", "s", "us", "", "1/s", "bytes/s", "share"


@dataclass(frozen=True)
class Metric:
    """What a metric is.

    Parameters
    ----------
    unit : str
        One of this module's units.
    meaning : str
        For docs/studies.md.
    everywhere : bool
        Whether each run on each machine has it; of the others the machine says which it has (``facts["metrics"]``).
    """

    unit: str
    meaning: str
    everywhere: bool = False


def _all() -> Iterator[tuple[str, Metric]]:
    yield "runtime_s", Metric(SECONDS, "from the start to the end; of a server from the end of its warm-up", True)
    yield "user_s", Metric(SECONDS, "CPU time of the run in its programs, all processes together", True)
    yield "system_s", Metric(SECONDS, "CPU time of the run in the kernel", True)
    yield "kdamond_cpu_s", Metric(SECONDS, "CPU time of kdamond", True)
    yield (
        "controller_cpu_s",
        Metric(
            SECONDS, "CPU time of a policy in user space (`senpai`), that of its reclaim included; 0 without one", True
        ),
    )
    yield "sampling_cpu_s", Metric(SECONDS, "CPU time of the measuring itself", True)
    yield "rss_avg_bytes", Metric(BYTES, "resident memory of the processes (RSS)", True)
    yield "rss_max_bytes", Metric(BYTES, "largest sample of RSS", True)
    yield "pss_avg_bytes", Metric(BYTES, "proportional set size (PSS)", True)
    yield "anon_huge_avg_bytes", Metric(BYTES, "memory in transparent huge pages", True)
    yield "anon_huge_max_bytes", Metric(BYTES, "largest sample of memory in transparent huge pages", True)
    yield "system_used_avg_bytes", Metric(BYTES, "`MemTotal - MemAvailable` of the machine (`/proc/meminfo`)", True)
    yield "net_avg_bytes", Metric(
        BYTES, "what an owner would get back: `memory_avg_bytes - zswap_avg_bytes + zram_avg_bytes`; with `--pid`,"
        " where others share the cgroup: `rss_avg_bytes + zram_avg_bytes`",
    )  # fmt: skip
    yield (
        "zram_avg_bytes",
        Metric(
            BYTES,
            "what the swapped pages take in zram and zswap; on the machine's own swap the workload's share of that",
        ),
    )
    yield "memory_avg_bytes", Metric(BYTES, "all memory that is charged to the run's cgroup (`memory.current`)")
    yield "memory_max_bytes", Metric(BYTES, "peak of `memory_avg_bytes` (`memory.peak`)")
    yield "cgroup_avg_bytes", Metric(BYTES, "old name of `memory_avg_bytes`")
    yield "swap_avg_bytes", Metric(BYTES, "what of the run is swapped out (`memory.swap.current`)")
    for kind, meaning in _KINDS.items():
        yield f"{kind}_avg_bytes", Metric(BYTES, meaning)
    yield "pswpin", Metric(COUNT, "pages read from swap, by the whole machine", True)
    yield "pswpout", Metric(COUNT, "pages written to swap, by the whole machine", True)
    yield "pgmajfault", Metric(COUNT, "accesses that waited for a page to be read, of the whole machine", True)
    yield "swap_written_bytes", Metric(BYTES, "what was written to swap devices, those in zram left out", True)
    yield "swap_written_bytes_per_s", Metric(BYTES_A_SECOND, "`swap_written_bytes / runtime_s`", True)
    yield "promotions_per_s", Metric(RATE, "`pswpin / runtime_s`: TMO's promotion rate", True)
    yield "refaults_per_s", Metric(
        RATE, "pages that were reclaimed and soon needed again:"
        " `(workingset_refault_anon + workingset_refault_file) / runtime_s`",
    )  # fmt: skip
    for name in (
        "workingset_refault_anon", "workingset_refault_file", "workingset_activate_anon", "workingset_activate_file",
        "pgscan", "pgsteal",
    ):  # fmt: skip
        yield name, Metric(COUNT, "counter in the `memory.stat` of the run's cgroup")
    for name in ("high", "max", "oom", "oom_kill"):
        yield f"limit_{name}", Metric(COUNT, f"`{name}` in the `memory.events` of the run's cgroup")
    for name in (
        "pgpromote_success", "pgdemote_kswapd", "pgdemote_direct", "pgdemote_proactive", "pgmigrate_success",
    ):  # fmt: skip
        yield name, Metric(COUNT, "pages that moved between memory nodes (`/proc/vmstat`)")
    for whose, of in (("", "the run's cgroup"), ("system_", "the whole machine")):
        for kind in ("some", "full", "io_some", "io_full", "cpu_some"):
            yield f"psi_{whose}{kind}_us", Metric(MICROSECONDS, f"pressure of {of} (PSI)")
    yield "fast_hits", Metric(SHARE, "share of the accesses to memory that fell on the fastest nodes (counted)")
    yield "modelled_s", Metric(SECONDS, "the runtime with the latencies of the nodes (a model)")
    yield "modelled_all_fast_s", Metric(SECONDS, "`modelled_s`, if all memory had the latency of the fastest node")
    yield "modelled_all_slow_s", Metric(SECONDS, "`modelled_s`, if all memory had the latency of the slowest node")


_KINDS = {
    "anon": "anonymous memory of the cgroup; this and the following are lines of `memory.stat`",
    "file": "its file cache, `shmem` included",
    "shmem": "its shared memory",
    "kernel": "the kernel's memory for it, `slab`, `pagetables` and `zswap` included",
    "slab": "kernel objects",
    "sock": "network buffers",
    "pagetables": "page tables",
    "zswap": "what pages take in zswap",
    "zswapped": "size before compression of the pages in zswap",
    "unevictable": "what is locked, of whatever kind",
}
METRICS: Mapping[str, Metric] = dict(_all())
EVERYWHERE = tuple(name for name, metric in METRICS.items() if metric.everywhere)
TIER_METRICS = ("fast_hits", "modelled_s", "modelled_all_fast_s", "modelled_all_slow_s")
"""What a guest adds whose accesses are counted; see `damoos.dispatch.modelled_time`."""
BUILT_IN = frozenset((*METRICS, *ROLE_METRICS))
"""Names that a workload's own metrics cannot have."""
# How names of metrics end that are not damoos's own: those of workloads, of a role.
_ENDINGS = {"_per_s": "", "_bytes": BYTES, "_ms": "ms", "_us": MICROSECONDS, "_s": SECONDS}


def unit_of(name: str) -> str:
    """The unit of a metric of damoos's, also of a role (``memory_avg_bytes.tax``); of others by the end of the name."""
    whole = name.partition(".")[0]
    if whole in METRICS:
        return METRICS[whole].unit
    return next((unit for ending, unit in _ENDINGS.items() if whole.endswith(ending)), "")
