"""A policy on a unit of a real systemd, through restarts of the unit and a reboot of the machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from damoos.dispatch.lease import Lease
from damoos.errors import MachineBusy, MachineError, MachineTransientError
from damoos.machines.catalog import machine
from damoos.machines.guest import GuestSession
from damoos.machines.guest.qemu import QemuProcess
from damoos.machines.ssh import SshMachine
from damoos.service.journal import Journal
from damoos.service.kept import Kept, guard_of
from tests import conftest
from tests.conftest import hot_cold, prcl, require_kernel, shell

KDAMOND = "/sys/kernel/mm/damon/admin/kdamonds/0"
HIGH = "/sys/fs/cgroup/system.slice/redis.service/memory.high"
REBOOT = "sync; setsid sh -c 'sleep 0.5; busybox reboot -f' > /dev/null 2>&1 < /dev/null &"
UP = "systemd brings up sshd"
UNITS = {
    "damoos.target": "[Unit]\nDefaultDependencies=no\nWants=network.service sshd.service redis.service\n",
    "network.service": """
        [Unit]
        DefaultDependencies=no
        [Service]
        Type=oneshot
        RemainAfterExit=yes
        ExecStart=busybox ip link set lo up
        ExecStart=busybox ip addr add 10.0.2.15/24 dev eth0
        ExecStart=busybox ip link set eth0 up
        ExecStart=busybox ip route add default via 10.0.2.2
    """,
    "sshd.service": """
        [Unit]
        DefaultDependencies=no
        After=network.service
        [Service]
        RuntimeDirectory=sshd
        ExecStartPre=/bin/sh -c "echo {up} > /dev/console"
        ExecStart=/usr/sbin/sshd -D -e -f /etc/damoos/sshd_config
    """,
    "redis.service": """
        [Unit]
        DefaultDependencies=no
        [Service]
        ExecStart={argv}
    """,
}


@pytest.fixture
def lease(guest_image: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lease]:
    """A machine of Debian's own systemd that can be booted again, reached as any host is."""
    start = QemuProcess._started

    def rebooting(self: QemuProcess, argv: list[str], fds: Sequence[int]) -> Any:
        return start(self, [word for word in argv if word != "-no-reboot"], fds)

    monkeypatch.setattr(QemuProcess, "_started", rebooting)
    require_kernel(None)
    bare = machine("guest")
    bare.provide(["systemd"], [])
    session = bare.open()
    assert isinstance(session, GuestSession)
    try:
        argv = service(session)
        for name, text in UNITS.items():
            content = "\n".join(line.strip() for line in text.format(argv=argv, up=UP).splitlines())
            shell(session, f"cat > /etc/systemd/system/{name} << 'END'\n{content}\nEND")
        shell(
            session, "ln -sf damoos.target /etc/systemd/system/default.target; ln -sf /lib/systemd/systemd /sbin/init"
        )
        session.agent.call("bye")
        shell(session, REBOOT)
        session.qemu.wait_for(UP, 300)
        with contextlib.closing(Lease(SshMachine("host", "a host", session.expose()))) as lease:
            yield lease
    finally:
        session.close()


def service(session: GuestSession) -> str:
    """A program whose file outlives a reboot."""
    argv = hot_cold(session, repeats=1000)
    shell(session, "mkdir -p /srv")
    return " ".join(kept_file(session, word) for word in argv)


def kept_file(session: GuestSession, word: str) -> str:
    if not word.startswith("/tmp"):
        return word
    shell(session, f"cp {word} /srv/")
    return f"/srv/{Path(word).name}"


def until(holds: Callable[[], Any], why: Callable[[], str]) -> Any:
    """What is true at last; the machine may be gone meanwhile."""

    def tried() -> Any:
        with contextlib.suppress(MachineTransientError, MachineBusy):
            return holds()
        return None

    return conftest.until(tried, why)


def test_a_unit_is_followed_through_restarts_and_a_reboot(lease: Lease, tmp_path: Path) -> None:
    until(lambda: lease.call("state"), str)  # its console may be ready before its sshd
    with pytest.raises(MachineError, match=r"systemd has no unit 'regis\.service' on this machine \(not-found\)"):
        lease.call("apply", service="regis", on={"kind": "unit", "name": "regis.service"}, context=None)

    def said(command: str) -> str:
        assert lease._session
        return shell(lease._session, command)  # type: ignore[arg-type]

    on = {"kind": "unit", "name": "redis.service"}
    applied = {"context": prcl("1s"), "memory_limits": {"memory.high": 1 << 29}, "on": on, "metrics": []}
    watched = guard_of({"arm": "tuned", "metrics": [], "guards": ["memory_pressure<=50%"], "window_s": 10.0})
    kept = Kept(
        "redis", lease.call, applied, {"scheme": "prcl", "on": "unit:redis.service"}, watched, Journal(tmp_path)
    )
    kept.begin()

    def state() -> dict[str, Any]:
        assert kept.look(), (tmp_path / "audit.log").read_text()
        return Journal(tmp_path).states()["redis"]

    def told() -> str:
        return (tmp_path / "audit.log").read_text()

    first = until(lambda: (now := state())["in_force"] and now, told)["pid"]
    assert said(f"cat {HIGH} {KDAMOND}/contexts/0/targets/0/pid_target").split() == [str(1 << 29), str(first)]
    said("systemctl restart redis.service")
    second = until(lambda: (now := state())["in_force"] and now["pid"] != first and now, told)["pid"]
    assert said(f"cat {HIGH} {KDAMOND}/contexts/0/targets/0/pid_target").split() == [str(1 << 29), str(second)]
    said("systemctl stop redis.service")
    until(lambda: state()["nr_processes"] == 0, told)
    said("systemctl start redis.service")
    until(lambda: state()["in_force"], told)

    boot = lease.facts["boot_id"]
    said(REBOOT)
    until(lambda: state()["in_force"] and lease.facts["boot_id"] != boot, told)
    assert "put back, because it was lost" in told()
    assert said(f"cat {HIGH} {KDAMOND}/state").split() == [str(1 << 29), "on"]
    kept.stop("the end")
    assert said(f"cat {HIGH} /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds").split() == ["max", "0"]
