"""Kills at random while sweeps run, on machines that are not there and on guests: `make chaos`.

Whatever is killed, a resumed sweep must end as an undisturbed one: each trial stored once, nothing left running.
``python tests/chaos.py [fake] [disk] [guests]`` does some of it only; ``CHAOS_SEED`` repeats a round.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna

from damoos.testing.fleet import plugin
from tests.conftest import short_workload

DAMOOS = Path(sys.executable).with_name("damoos")
SEED = int(os.environ.get("CHAOS_SEED", time.time_ns() % 10_000))
PARTS = ("trials", "recommended", "validation", "verdict", "baselines")
Env = dict[str, str]


def say(text: str) -> None:
    print(f"chaos: {text}", flush=True)


def check(holds: bool, what: str) -> None:
    """Say it, or end here."""
    if not holds:
        raise SystemExit(f"chaos: NOT TRUE: {what} (CHAOS_SEED={SEED})")
    say(f"true: {what}")


def below(pid: int) -> list[int]:
    """All processes below one."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        found += [one for child in children for one in (child, *below(child))]
    return found


def first_word(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


class Chaos:
    """A sweep that is driven, killed and driven again until it is done.

    Parameters
    ----------
    argv : list of str
        The sweep; the same words go on with it.
    env : dict
    keeper : int
        Process of its cluster.
    kills : int
    pause : (float, float), seconds
        Between two kills.
    killers : dict
        What is killed, and how: a function that returns whether there was something to kill.
    """

    def __init__(self, argv: list, env: Env, keeper: int, kills: int, pause: tuple[float, float]) -> None:
        self.argv, self.env, self.keeper = argv, env, keeper
        self.left, self.pause = kills, pause
        self.random = random.Random(SEED)
        self.killed: Counter[str] = Counter()
        self.spread = 2
        self.driver: subprocess.Popen[str] | None = None
        self.killers: dict[str, Callable[[], bool]] = {"driver": self.kill_driver, "worker": self.kill_worker}
        self._done = threading.Event()

    def run(self) -> dict:
        """Until the sweep is done and all kills have been made; returns its last event."""
        thread = threading.Thread(target=self._kill, daemon=True)
        thread.start()
        while True:
            self.driver = subprocess.Popen(
                self.argv, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            out, err = self.driver.communicate()
            if self.driver.returncode in (-signal.SIGKILL, 3):  # killed; or a machine was given up, and is tried again
                continue
            if self.driver.returncode != 0:
                raise SystemExit(f"chaos: the driver ended with {self.driver.returncode}: {err} (CHAOS_SEED={SEED})")
            self._done.set()
            thread.join()
            found: dict = json.loads(out.splitlines()[-1])
            return found

    def _kill(self) -> None:
        names = list(self.killers)
        while self.left and not self._done.wait(self.random.uniform(*self.pause)):
            # None of them much more often than another.
            fewest = min(self.killed[name] for name in names)
            name = self.random.choice([one for one in names if self.killed[one] <= fewest + self.spread])
            if self.killers[name]():
                self.killed[name] += 1
                self.left -= 1

    def kill_driver(self) -> bool:
        if self.driver is None or self.driver.poll() is not None:
            return False
        self.driver.kill()
        return True

    def kill_worker(self) -> bool:
        return self.kill_one(lambda word: word.startswith("ray::_work"))

    def kill_raylet(self) -> bool:
        """Not the head's, which is the first: with it the cluster itself is gone."""
        return self.kill_one(lambda word: word.endswith("/raylet"), skip=1)

    def kill_one(self, fits: Callable[[str], bool], skip: int = 0, how: int = signal.SIGKILL) -> bool:
        pids = [pid for pid in below(self.keeper) if fits(first_word(pid))][skip:]
        if not pids:
            return False
        try:
            os.kill(self.random.choice(pids), how)
        except ProcessLookupError:
            return False
        return True


@contextmanager
def cluster(env: Env, machines: str) -> Iterator[int]:
    """A cluster's keeper; nothing of it may be left behind."""
    subprocess.run([DAMOOS, "cluster", "up", "--local", machines], env=env, check=True, stdout=subprocess.DEVNULL)
    keeper = json.loads((Path(env["DAMOOS_CACHE"]) / f"ray-{os.geteuid()}/cluster.json").read_text())["pid"]
    seen: set[int] = set()
    try:
        yield keeper
        seen = set(below(keeper))
    finally:
        subprocess.run([DAMOOS, "cluster", "down"], env=env, check=True, stdout=subprocess.DEVNULL)
    time.sleep(2)
    check(not any(first_word(pid) for pid in seen), "nothing of the cluster and its guests is left running")


def stored_once(results: Path, sweep: str, trials: int) -> None:
    url = f"sqlite:///{results}/damoos.sqlite"
    for name in (one for one in optuna.get_all_study_names(storage=url) if one.startswith(sweep)):
        stored = [one.user_attrs["run"]["number"] for one in optuna.load_study(study_name=name, storage=url).trials]
        check(sorted(stored) == list(range(trials)), f"each trial of {name} is stored once")


def outcome(results: Path, sweep: str) -> dict:
    """All that does not depend on time."""
    found = {}
    for file in results.glob(f"{sweep}-*/result.json"):
        result = json.loads(file.read_text())
        found[file.parent.name] = {part: result[part] for part in PARTS}
    return found


def fake(place: Path) -> None:
    """50 kills of driver, workers and raylets during a sweep of 60 trials."""
    machines = "fake:a,fake:b,fake:c"
    env = {**plugin(place, latency_s=2.0, losses=0.01), "DAMOOS_CACHE": str(place / "cache")}
    quick = plugin(place, latency_s=0.0) | {"DAMOOS_CACHE": env["DAMOOS_CACHE"]}
    argv: list = [DAMOOS, "sweep", "--workloads", "synthetic/hot-cold,synthetic/idle", "--machines", machines,
                  "--trials", "10", "--repeats", "2", "--candidates", "1", "--format", "jsonl"]  # fmt: skip
    subprocess.run([*argv, "--results", place / "whole"], env=quick, check=True, stdout=subprocess.DEVNULL)
    with cluster(env, machines) as keeper:
        chaos = Chaos([*argv, "--results", place / "killed", "--ray", "auto"], env, keeper, 50, (0.2, 3.0))
        chaos.killers["raylet"] = chaos.kill_raylet
        begun = time.monotonic()
        found = chaos.run()
        say(f"{sum(chaos.killed.values())} kills ({dict(chaos.killed)}) in {time.monotonic() - begun:.0f} s")
    check(chaos.left == 0, "all 50 kills were made before the sweep was done")
    check(found["failures"] == [], "no study has failed in the end")
    stored_once(place / "killed", "sweep-1", 10)
    check(outcome(place / "killed", "sweep-1") == outcome(place / "whole", "sweep-1"),
          "all 60 trials, recommendations and verdicts are those of an undisturbed sweep")  # fmt: skip


def disk(place: Path) -> None:
    """A real disk that is full."""
    if os.geteuid() != 0:
        say("left out: only root can mount a small disk")
        return
    env = plugin(place, latency_s=0.0) | {"DAMOOS_CACHE": str(place / "cache")}
    argv: list = [DAMOOS, "sweep", "--workloads", "synthetic/hot-cold,synthetic/idle", "--machines", "fake:a,fake:b",
                  "--trials", "10", "--format", "jsonl"]  # fmt: skip
    subprocess.run([*argv, "--results", place / "whole"], env=env, check=True, stdout=subprocess.DEVNULL)
    small = place / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900k", "damoos-chaos", small], check=True)
    try:
        words = [*argv, "--results", small]
        full = subprocess.run(words, env=env, check=False, capture_output=True, text=True)
        last = full.stderr.strip().splitlines()[-1]
        said = full.returncode == 3 and ("full" in last or "No space left" in last)
        check(said, f"a full disk is one line: {last}")
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        subprocess.run(words, env=env, check=True, stdout=subprocess.DEVNULL)
        stored_once(small, "sweep-1", 10)
        check(outcome(small, "sweep-1") == outcome(place / "whole", "sweep-1"),
              "with more room it ends as an undisturbed sweep")  # fmt: skip
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)  # our own look into the store holds it


def guests(place: Path) -> None:
    """5 kills on real guests: the guest, its sshd, the worker, the driver, and a guest that hangs."""
    cache = place / "cache"
    cache.mkdir(exist_ok=True)
    real = Path(os.environ.get("DAMOOS_CACHE") or Path.home() / ".cache/damoos")
    for one in real.iterdir():
        if not one.name.startswith("cluster.") and not (cache / one.name).exists():
            (cache / one.name).symlink_to(one)
    env = {**os.environ, "DAMOOS_CACHE": str(cache)}
    names = []
    for name in ("one", "two"):
        (place / name).mkdir()
        names.append(str(short_workload(place / name, "1s").rename(place / name / f"{name}.toml")))
    argv: list = [DAMOOS, "sweep", "--workloads", ",".join(names), "--machines", "i3,m5d",
                  "--trials", "6", "--repeats", "2", "--candidates", "1", "--format", "jsonl"]  # fmt: skip
    with cluster(env, "i3,m5d") as keeper:
        chaos = Chaos([*argv, "--results", place / "guests", "--ray", "auto"], env, keeper, 5, (15, 30))

        def is_guest(word: str) -> bool:
            return "qemu" in word

        chaos.spread = 0  # five kinds, five kills
        chaos.killers |= {
            "guest": lambda: chaos.kill_one(is_guest),
            "hanging guest": lambda: chaos.kill_one(is_guest, how=signal.SIGSTOP),
            "sshd": lambda: in_guest(keeper, "echo logged in; date -s '+1 hour' >/dev/null; pkill -9 sshd"),
        }
        begun = time.monotonic()
        found = chaos.run()
        say(f"{sum(chaos.killed.values())} kills ({dict(chaos.killed)}) in {time.monotonic() - begun:.0f} s")
    check(chaos.left == 0, "all 5 kills were made before the sweep was done")
    check(found["failures"] == [], "no study has failed in the end")
    check(len(found["studies"]) == 4, "there are all four studies")
    stored_once(place / "guests", "sweep-1", 6)


def in_guest(keeper: int, command: str) -> bool:
    """Run a command in one of the guests, past damoos: its clock jumps, and its sshd goes."""
    for pid in below(keeper):
        words = Path(f"/proc/{pid}/cmdline").read_text() if "qemu" in first_word(pid) else ""
        port = re.search(r"hostfwd=tcp:127\.0\.0\.1:(\d+)-", words)
        folder = re.search(r"file:([^\0]*)/console", words)
        if not port or not folder or not Path(folder[1], "known_hosts").exists():
            continue
        from damoos.machines.guest.image import image

        ssh = ["ssh", "-i", image().user_key, "-p", port[1], "-o", f"UserKnownHostsFile={folder[1]}/known_hosts"]
        done = subprocess.run([*ssh, "-o", "BatchMode=yes", "root@127.0.0.1", command], capture_output=True, timeout=60)
        return b"logged in" in done.stdout
    return False


def main() -> None:
    parts = {one.__name__: one for one in (fake, disk, guests)}
    say(f"CHAOS_SEED={SEED}")
    for name in sys.argv[1:] or parts:
        with tempfile.TemporaryDirectory(prefix="damoos-chaos-") as place:
            say(f"{name}: {parts[name].__doc__}")
            parts[name](Path(place))


if __name__ == "__main__":
    main()
