#!/bin/bash
# The first process of the emulated machine of tests/kvm/run.sh: runs the checks and ends it.
export HOME=/root LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec >/dev/ttyS0 2>&1 </dev/null
mountpoint -q /proc || mount -t proc proc /proc
mountpoint -q /sys || mount -t sysfs sys /sys
mountpoint -q /run || mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
ip link set lo up 2>/dev/null || python3 -c '
import fcntl, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # lo is up: SIOCSIFFLAGS, IFF_UP | IFF_RUNNING
    fcntl.ioctl(probe, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
'
modprobe kvm-amd
cd /root/damoos || exit 1
.venv/bin/pytest -o timeout=0 -p no:cacheprovider -v -s --color=no tests/kvm/checks.py
echo "damoos-kvm: exit $?"
sync
echo o >/proc/sysrq-trigger
sleep 60
