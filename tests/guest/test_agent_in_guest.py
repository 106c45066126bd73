"""The agent on a real kernel that carries DAMON."""

from __future__ import annotations

import json
import os
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from damoos.damon.damo_json import context_to_json
from damoos.damon.pattern import AccessPattern
from damoos.damon.scheme import Context, Scheme
from damoos.dispatch.lease import Lease
from damoos.errors import MachineBusy, MachineLost, WorkloadError
from damoos.machines.catalog import KERNEL, machine
from damoos.machines.guest import GuestSession, kernels
from damoos.policies.base import LimitedPolicy, NonePolicy
from damoos.policies.catalog import parse
from damoos.workloads import catalog
from damoos.workloads.base import Load, Program, ProgramWorkload
from damoos.workloads.tools import PROTECT, tool
from tests.conftest import COLD_BYTES, HOT_BYTES, MIB, agent_pid, hot_cold, open_guest, prcl, shell, until

KDAMONDS = "/sys/kernel/mm/damon/admin/kdamonds"


def run(session: GuestSession, argv: list[str], context: dict | None = None, limit_s: float = 120.0) -> dict:
    spec = {"env": {}, "limit_s": limit_s, "sample_s": 0.5, "drop_caches": True, "context": context}
    return session.agent.call("run", argv=argv, **spec)


def assert_clean(session: GuestSession) -> None:
    assert shell(session, f"cat {KDAMONDS}/nr_kdamonds") == "0"
    assert shell(session, "ls -d /sys/fs/cgroup/damoos-* 2>/dev/null | wc -l") == "0"
    assert shell(session, "pgrep mempat | wc -l || true") == "0"


def column(raw: dict, name: str) -> list[float]:
    return [row[raw["sample_columns"].index(name)] for row in raw["samples"]]


def test_the_kernel_is_the_guests_and_offers_what_damos_needs(guest: GuestSession) -> None:
    assert guest.facts["kernel"] == kernels.kernel(os.environ[KERNEL]).release
    assert guest.facts["kernel"] != Path("/proc/sys/kernel/osrelease").read_text().strip()
    offered = guest.agent.call("probe")
    assert {"vaddr", "paddr"} <= set(offered["operations"])
    assert {"pageout", "hugepage", "migrate_cold", "stat"} <= set(offered["actions"])
    assert_clean(guest)


def test_thp_is_off_and_swap_is_a_zram_of_ours(guest: GuestSession) -> None:
    assert "[never]" in shell(guest, "cat /sys/kernel/mm/transparent_hugepage/enabled")
    assert "/dev/zram0" in shell(guest, "cat /proc/swaps")


def test_damon_sees_the_hot_set(guest: GuestSession) -> None:
    """DAMON's hot bytes are within 10 % of the truth: accessed bits are true under emulation too."""
    pattern = AccessPattern()
    argv = hot_cold(guest, repeats=100)  # until it has been looked at, however busy this host is
    spec = {"argv": argv, "env": {}, "context": context_to_json(Context((Scheme("stat", pattern),)))}
    guest.agent.call("apply", **spec)
    try:
        deadline = time.monotonic() + 300
        while guest.agent.call("status")["for_s"] < 6 and time.monotonic() < deadline:
            time.sleep(0.5)
        seen = []
        for _ in range(5):
            regions = guest.agent.call("regions")
            seen.append(sum(end - start for start, end, accesses, _ in regions if accesses >= 10))
    finally:
        guest.agent.call("stop")
    mean = sum(seen) / len(seen)
    assert abs(mean - HOT_BYTES) <= 0.1 * HOT_BYTES, [size / MIB for size in seen]
    assert_clean(guest)


def test_pageout_leaves_the_hot_set(guest: GuestSession) -> None:
    """A scheme of min_age 1 s brings RSS to within 5 % of the hot set, and costs the reader nothing it reads."""
    baseline = run(guest, hot_cold(guest))
    raw = run(guest, hot_cold(guest), prcl("1s"))
    last = column(raw, "rss_bytes")[-3:]
    assert all(abs(size - HOT_BYTES) <= 0.05 * HOT_BYTES for size in last), [size / MIB for size in last]
    assert min(column(baseline, "rss_bytes")[-3:]) > HOT_BYTES + COLD_BYTES
    assert raw["damos"][0]["sz_tried_bytes"] > 0.7 * COLD_BYTES  # applied is no proof: docs/kernel.md
    assert raw["damos"][0]["nr_tried"] >= raw["damos"][0]["nr_applied"] > 0
    assert raw["counters"]["pswpout"] * 4096 > 0.7 * COLD_BYTES
    assert max(column(raw, "zram_bytes")) > 0
    assert raw["kdamond_cpu_s"] > 0
    own = {"some", "full", "io_some", "io_full", "cpu_some"}
    assert raw["psi_us"].keys() == {*own, *(f"system_{name}" for name in own)}
    for name, whole_us in raw["psi_us"].items():
        if name in ("some", "full"):  # memory's pressure grows from the run's begin on
            grown = [0, *column(raw, f"psi_{name}_us"), whole_us]
            assert grown == sorted(grown)
    assert baseline["damos"] == []
    assert baseline["counters"]["pswpout"] == 0
    assert_clean(guest)


def test_memory_is_told_by_kind(guest: GuestSession) -> None:
    """What the kernel charges to a run is the sum of its kinds; a file that it reads is part of it, and no RSS."""
    read = "data = open('/usr/bin/python3', 'rb').read(); hold = bytearray(24 << 20); import time; time.sleep(2)"
    raw = run(guest, ["python3", "-c", read])
    # While it sleeps it has the most; the last sample may be of a Python that has begun to give its memory back.
    samples = [dict(zip(raw["sample_columns"], row, strict=True)) for row in raw["samples"]]
    held = max(samples, key=lambda sample: sample["anon_bytes"])
    assert held["anon_bytes"] > 24 * MIB
    assert held["file_bytes"] > 3 * MIB  # Python itself, but for what the agent holds of it
    assert held["kernel_bytes"] >= held["slab_bytes"] + held["pagetables_bytes"] > 0
    parts = held["anon_bytes"] + held["file_bytes"] + held["kernel_bytes"] + held["sock_bytes"]
    assert abs(parts - held["cgroup_bytes"]) < MIB
    assert abs(held["net_bytes"] - held["cgroup_bytes"] - held["zram_bytes"]) < MIB
    assert held["cgroup_bytes"] < held["system_used_bytes"] < guest.facts["mem_bytes"]
    assert raw["peak_bytes"] >= held["cgroup_bytes"]
    assert raw["counters"]["workingset_refault_file"] >= 0


def test_a_run_under_a_limit_pages_and_one_that_cannot_is_said_to_need_more(guest: GuestSession) -> None:
    argv = hot_cold(guest)
    spec = {"env": {}, "limit_s": 300, "sample_s": 0.5, "drop_caches": True, "context": None}
    raw = guest.agent.call("run", argv=argv, memory_limits={"memory.max": 32 * MIB}, **spec)
    assert raw["exit_status"] == 0
    assert max(column(raw, "cgroup_bytes")) <= 32 * MIB
    assert raw["counters"]["limit_max"] > 0
    assert raw["counters"]["limit_oom_kill"] == 0
    assert raw["counters"]["pswpout"] * 4096 > HOT_BYTES + COLD_BYTES - 32 * MIB - MIB
    assert raw["counters"]["swap_written_bytes"] == 0  # zram is memory
    locked = "import ctypes; ctypes.CDLL(None).mlockall(3); held = bytearray(64 << 20)"
    with Lease(machine("guest")) as lease:
        workload = catalog.command(f'python3 -c "{locked}"', catalog.Tune().tuning())
        with pytest.raises(WorkloadError, match="because it needs more than the 32 MiB that it was limited to"):
            lease.run(workload, LimitedPolicy(NonePolicy(), {"memory.max": 32 * MIB}), 60)
        load = Load(("true",), (), (("sleep", "600"),), "none")  # the server is killed while it is warmed up
        server = ProgramWorkload("server", Program(("python3", "-c", locked), load=load), catalog.Tune().tuning())
        with pytest.raises(WorkloadError, match=r"the server ended .* because it needs more than the 32 MiB"):
            lease.run(server, LimitedPolicy(NonePolicy(), {"memory.max": 32 * MIB}), 60)
    assert_clean(guest)


# It goes around through more than the limit grants, so that the kernel, left alone, pages out what is due next.
WALKER = """
import ctypes, sys
hot, cold = bytearray(12 << 20), bytearray(24 << 20)
print(hex(ctypes.addressof(ctypes.c_char.from_buffer(hot))), flush=True)
for _ in range(int(sys.argv[1])):
    for at in range(0, len(cold), 4096): cold[at] ^= 1
    for at in range(0, len(hot), 4096): hot[at] ^= 1
"""


def test_hot_memory_is_protected_under_a_limit(guest: GuestSession) -> None:
    """Where it is locked, it stays, and the kernel pages out the rest; the machine's ASLR is as it was."""
    before = shell(guest, "cat /proc/sys/kernel/randomize_va_space")
    spec = {"env": {"PYTHONHASHSEED": "0"}, "limit_s": 300, "sample_s": 0.1, "drop_caches": True, "context": None}
    spec["memory_limits"] = {"memory.max": 28 * MIB}

    def walked(**more: Any) -> dict:
        return guest.agent.call("run", argv=["/usr/bin/python3", "-c", WALKER, "8"], aslr=False, **spec, **more)

    library = guest.copy(tool(PROTECT))
    nowhere = walked(program_env={"LD_PRELOAD": library, "DAMOOS_PROTECT": "1000-2000"})
    at = int(nowhere["stdout"].split()[0], 16)
    assert max(column(nowhere, "unevictable_bytes")) == 0
    hot = f"{at:x}-{at + (12 << 20):x}"
    locked = walked(program_env={"LD_PRELOAD": library, "DAMOOS_PROTECT": hot})
    assert int(locked["stdout"].split()[0], 16) == at
    assert abs(max(column(locked, "unevictable_bytes")) - 12 * MIB) < MIB
    # How much of all is paged is the kernel's choice: the rest has less room than it had.
    assert min(run["counters"]["pswpin"] for run in (nowhere, locked)) > 0
    assert shell(guest, "cat /proc/sys/kernel/randomize_va_space") == before
    assert_clean(guest)


def test_senpai_takes_what_nobody_waits_for(guest: GuestSession) -> None:
    """Each decision in the guest is the equation's, and the memory that is not accessed is gone in the end."""
    spec = parse("senpai:ratio=10%:most=10%:interval=500ms:pressure=10%:io_pressure=10%").spec()
    argv = hot_cold(guest)
    run_spec = {"env": {}, "limit_s": 300, "sample_s": 0.5, "drop_caches": True}
    raw = guest.agent.call("run", argv=argv, **run_spec, **spec)
    assert raw["exit_status"] == 0
    told = raw["controller"]
    rows = [dict(zip(told["columns"], row, strict=True)) for row in told["decisions"]]
    assert len(rows) > 10
    for row in rows:
        share = min(0.1 * max(0.0, 1 - max(row["some"], row["io_some"]) / 0.1), 0.1)
        assert abs(row["asked_bytes"] - row["current_bytes"] * share) <= 1
    assert raw["counters"]["pswpout"] * 4096 > 0.3 * COLD_BYTES
    assert column(raw, "rss_bytes")[-2] < HOT_BYTES + 0.7 * COLD_BYTES
    assert 0 < told["cpu_s"] < raw["runtime_s"]
    assert_clean(guest)


def test_the_clock_counts_instructions(guest: GuestSession) -> None:
    """Two runs without a scheme agree to 1 %, whatever this host is doing."""
    if guest.facts["accel"] != "tcg":
        pytest.skip("only emulation has a clock of instructions")
    argv = hot_cold(guest, paced=False, rate=3000)
    first, second = (run(guest, argv)["runtime_s"] for _ in range(2))
    assert abs(first - second) / first < 0.01


def test_the_kernel_is_asked_what_it_took(guest: GuestSession) -> None:
    accepted = run(guest, ["sleep", "1"], prcl("5s"))["accepted"]
    attrs = {k.removeprefix("monitoring_attrs/"): v for k, v in accepted.items() if k.startswith("monitoring")}
    assert {name: value for name, value in attrs.items() if value != "0"} == {
        "intervals/sample_us": "5000",
        "intervals/aggr_us": "100000",
        "intervals/update_us": "1000000",
        "nr_regions/min": "10",
        "nr_regions/max": "1000",
    }
    assert accepted["schemes/0/action"] == "pageout"
    assert accepted["schemes/0/access_pattern/age/min"] == "50"
    assert accepted["schemes/0/access_pattern/nr_accesses/max"] == "0"


def test_children_come_under_the_scheme(guest: GuestSession) -> None:
    """A program that a shell script starts is watched too."""
    script = f"{' '.join(hot_cold(guest))}; exit 0"
    raw = run(guest, ["sh", "-c", script], prcl("1s"))
    assert min(column(raw, "rss_bytes")[-3:]) < HOT_BYTES + 0.6 * COLD_BYTES
    assert_clean(guest)


def test_children_that_come_and_go_do_not_cost_the_scheme(guest: GuestSession) -> None:
    """A commit that names a process which has just ended kills the kdamond in 6.12 (docs/kernel.md)."""
    script = (
        "import subprocess, sys, time\n"
        "one = 'import time; held = bytearray(4 << 20); time.sleep(%g)'\n"
        "for n in range(16):\n"
        "    last = subprocess.Popen([sys.executable, '-c', one % (0.15 * n)])\n"
        "    time.sleep(0.25)\n"
        "last.wait()\n"
    )
    raw = run(guest, ["python3", "-c", script], prcl("1s"))
    assert raw["exit_status"] == 0, raw["stderr"]
    assert raw["kdamond_cpu_s"] > 0
    assert_clean(guest)


def test_a_hugepage_scheme_is_accepted_and_an_impossible_action_applies_nothing(guest: GuestSession) -> None:
    for action in ("nohugepage", "lru_prio"):
        context = context_to_json(Context((Scheme(action, AccessPattern()),)))
        stats = run(guest, ["sleep", "2"], context)["damos"][0]
        assert stats["sz_tried_bytes"] > 0
        assert (stats["sz_applied_bytes"] == 0) == (action == "lru_prio"), action


def test_two_schemes_and_all_memory(guest: GuestSession) -> None:
    schemes = (Scheme("stat"), Scheme.parse("4K max  min min  1s max  pageout"))
    context = context_to_json(Context(schemes, operations="paddr"))
    raw = run(guest, ["sleep", "3"], context)
    assert [one["nr_tried"] > 0 for one in raw["damos"]] == [True, True]
    assert_clean(guest)


@pytest.mark.parametrize(
    ("argv", "limit_s", "message"),
    [
        (["no-such-program"], 5.0, "cannot start 'no-such-program': No such file or directory"),
        (["sleep", "60"], 1.0, "ran past its limit of 1 s"),
    ],
)
def test_workloads_that_do_not_run(guest: GuestSession, argv: list[str], limit_s: float, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        run(guest, argv, prcl("1s"), limit_s)
    assert_clean(guest)


def test_crash_and_exit_status_are_told(guest: GuestSession) -> None:
    assert run(guest, ["sh", "-c", "echo broken >&2; exit 7"])["exit_status"] == 7
    assert run(guest, ["sh", "-c", "kill -SEGV $$"])["exit_status"] == -11
    assert run(guest, ["sh", "-c", "echo broken >&2; exit 7"])["stderr"] == "broken\n"


def test_shells_find_their_files_in_dev(guest: GuestSession) -> None:
    """Scripts such as Spark's read /dev/fd, which no udev makes in a guest."""
    script = "cat <(echo substituted) && [ -e /dev/stdin ] && [ -e /dev/stdout ] && echo told >/dev/stderr"
    raw = run(guest, ["bash", "-c", script])
    assert (raw["stdout"], raw["stderr"]) == ("substituted\n", "told\n")


def test_what_a_workload_leaves_behind_is_ended(guest: GuestSession) -> None:
    run(guest, ["sh", "-c", "setsid sleep 1000 & exit 0"])
    assert shell(guest, "pgrep -f 'sleep 1000' | wc -l") == "1"  # the shell that asks is the one
    assert_clean(guest)


def test_somebody_elses_kdamond_is_left_alone(guest: GuestSession) -> None:
    shell(guest, f"echo 1 > {KDAMONDS}/nr_kdamonds")
    try:
        with pytest.raises(MachineBusy, match="in use on this machine by another program"):
            run(guest, ["sleep", "1"], prcl("1s"))
        assert shell(guest, f"cat {KDAMONDS}/nr_kdamonds") == "1"
    finally:
        shell(guest, f"echo 0 > {KDAMONDS}/nr_kdamonds")


def test_the_real_damo_starts_what_we_write(fresh_guest: GuestSession, tmp_path: Path) -> None:
    """``damo start`` takes our JSON and the kernel then holds our numbers."""
    bundle, document = tmp_path / "damo.pyz", tmp_path / "scheme.json"
    sources = Path(sys.executable).parent.parent.glob("lib/python3*/site-packages/damo/*.py")
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", "from damo.damo import main\nmain()\n")
        for source in sources:
            archive.write(source, f"damo/{source.name}")
    document.write_text(
        json.dumps(context_to_json(Context((Scheme.parse("4K max  min min  5s max  pageout"),)), pid=1))
    )
    damo = f"python3 {fresh_guest.copy(bundle)}"
    shell(fresh_guest, f"{damo} start {fresh_guest.copy(document)}")
    files = (
        "state contexts/0/targets/0/pid_target contexts/0/schemes/0/action contexts/0/schemes/0/access_pattern/age/min"
    )
    assert shell(fresh_guest, f"cd {KDAMONDS}/0 && cat {files}").split() == ["on", "1", "pageout", "50"]
    with pytest.raises(MachineBusy):
        fresh_guest.agent.call("probe")
    shell(fresh_guest, f"{damo} stop")


def test_a_killed_agent_is_cleaned_up_after(fresh_guest: GuestSession) -> None:
    pid = agent_pid(fresh_guest)
    fresh_guest.agent.call("apply", argv=["sleep", "1000"], env={}, context=prcl("1s"))
    assert shell(fresh_guest, f"cat {KDAMONDS}/0/state") == "on"
    shell(fresh_guest, f"kill -9 {pid}")
    with pytest.raises(MachineLost, match=r"hung up|broke"):
        fresh_guest.agent.call("status")
    assert_restored(fresh_guest)


def test_a_vanished_controller_is_cleaned_up_after(fresh_guest: GuestSession) -> None:
    fresh_guest.agent.call("apply", argv=["sleep", "1000"], env={}, context=prcl("1s"))
    fresh_guest.agent.hang_up()
    assert_restored(fresh_guest)


def assert_restored(session: GuestSession) -> None:
    look = f"cat {KDAMONDS}/nr_kdamonds; grep -c zram /proc/swaps; ls -d /dev/zram* | wc -l; pgrep -x sleep | wc -l"
    until(lambda: shell(session, look).split() == ["0"] * 4, lambda: shell(session, look))


def test_a_program_for_which_memory_runs_out_is_known_by_the_kernels_count(fresh_guest: GuestSession) -> None:
    """It has 1 GiB and 256 MiB of zram, into which pages of one byte go as nothing: the program wants 4 GiB."""
    greedy = "kept = [bytes([n + 1]) * (64 << 20) for n in range(64)]"
    raw = run(fresh_guest, ["python3", "-c", greedy])
    assert raw["exit_status"] == -9
    assert raw["oom_kills"] == 1
    assert max(column(raw, "rss_bytes")) > 500 * MIB
    assert run(fresh_guest, ["true"])["oom_kills"] == 0  # the agent lives on
    assert_clean(fresh_guest)


def test_a_second_agent_is_refused(guest: GuestSession) -> None:
    bundle = shell(guest, "ls -t /root/.cache/damoos/sent/*/*.pyz | head -1")
    answer = shell(guest, f"python3 -S {bundle} </dev/null || true")
    assert "another damoos agent works on this machine" in answer


def test_a_silent_guest_is_lost_with_its_last_words(guest_image: None, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import signal

    session = open_guest()
    monkeypatch.setattr("damoos.machines.link.SILENCE_S", 3.0)
    os.kill(session.qemu.pid, signal.SIGSTOP)
    try:
        with pytest.raises(MachineLost, match=r"no sign of life for 3 s during 'facts'.*QEMU runs"):
            session.agent.call("facts")
    finally:
        session.close()
    assert not Path(f"/proc/{session.qemu.pid}").exists()


def test_a_guest_that_floods_its_console_fills_nothing(guest: GuestSession) -> None:
    """Neither the disk of this host, nor its memory, nor an error message."""
    shell(guest, "head -c 3000000 /dev/zero > /dev/ttyS0; echo the end > /dev/ttyS0")
    assert sum(file.stat().st_size for file in guest.qemu.place.rglob("*")) < 1 << 20
    until(lambda: "the end" in guest.qemu.last_words())
    assert len(guest.qemu.last_words()) < 4000
    assert len(guest.qemu.console()) < 1 << 20


OWNER_SWAPPED = """
import ctypes, mmap, time
memory = mmap.mmap(-1, 8 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:] = bytes(range(256)) * (8 << 12)
memory.madvise(21, 0, 4 << 20)  # MADV_PAGEOUT
print(ctypes.addressof(ctypes.c_char.from_buffer(memory)), flush=True)
time.sleep(3600)
"""


def test_what_was_on_swap_before_damoos_came_stays_there(guest: GuestSession, tmp_path: Path) -> None:
    """Between two windows, what the scheme has paged out comes back, and nothing of what its owner had there."""
    program = tmp_path / "swapped.py"
    program.write_text(OWNER_SWAPPED)
    shell(guest, f"nohup python3 {guest.copy(program)} >/tmp/swapped.out 2>&1 &")
    shell(guest, "until [ -s /tmp/swapped.out ]; do sleep 0.1; done")
    pid = int(shell(guest, "pgrep -f swapped.py"))

    def swapped_kib() -> int:
        return int(shell(guest, f"awk '/VmSwap/ {{print $2}}' /proc/{pid}/status"))

    before_kib = swapped_kib()
    assert 3 << 10 < before_kib < 5 << 10
    window = {"pid": pid, "settle_s": 0.5, "window_s": 1.0, "sample_s": 0.5, "metrics": []}
    guest.agent.call("observe", context=prcl("200ms"), **window)
    while swapped_kib() < before_kib + (2 << 10):  # the scheme stays between two windows, and DAMON needs its time
        time.sleep(0.5)
    without = guest.agent.call("observe", context=None, **window)
    assert without["left_on_swap_bytes"] < 1 << 20
    assert abs(swapped_kib() - before_kib) < 1 << 10
    shell(guest, f"kill {pid}")
