#!/usr/bin/env bash
# Run tests/kvm/checks.py in an emulated machine:
#
#     tests/kvm/run.sh DISK
#
# QEMU emulates AMD's virtualisation, so Debian's kernel has KVM in there, and damoos boots its guests under it. DISK is
# what tests/bare.sh --disk has made; nothing is written to it.
set -euo pipefail

disk=$1
console=$(mktemp /var/tmp/damoos-kvm-XXXXXX)
qemu-system-x86_64 -nodefaults -no-user-config -no-reboot -display none -machine q35,sata=off \
    -accel tcg,thread=multi -cpu max -smp 2 -m 6G \
    -kernel "$disk.vmlinuz" -initrd "$disk.initrd" \
    -append "console=ttyS0 quiet panic=-1 mitigations=off root=/dev/vda rw init=/root/damoos/tests/kvm/init.sh" \
    -drive "file=$disk,if=virtio,format=raw,snapshot=on" -serial "file:$console" &
qemu=$!
trap 'kill "$qemu" 2>/dev/null || true; rm -f "$console"' EXIT
tail --pid="$qemu" -n +1 -f "$console"
grep -q 'damoos-kvm: exit 0' "$console"
