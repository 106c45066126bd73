#!/usr/bin/env bash
# Make a bare Debian and run make there, as on a machine that somebody has just installed:
#
#     tests/bare.sh SUITE [--chroot] [--disk FILE] TARGET...        for example: tests/bare.sh bookworm tune
#
# The bare root has nothing but Debian's minbase, make, git and python3. It gets a clone of HEAD, this host's way to the
# network, and an empty home. It is entered by pivot_root in namespaces of its own, so that what runs there can make user
# namespaces as on a real machine; with --chroot by chroot, where they are forbidden, as in many containers.
# With --disk it gets Debian's kernel as well, and what has come of it is put on a disk that QEMU can boot from, with the
# kernel and its RAM disk in FILE.vmlinuz and FILE.initrd. Everything else ends with this script. Needs root and mmdebstrap.
set -euo pipefail

suite=$1
shift
enter=pivot
disk=
packages=make,git,python3,ca-certificates
while :; do
    case $1 in
    --chroot)
        enter=chroot
        ;;
    --disk)
        disk=$(realpath "$2")
        packages=$packages,linux-image-cloud-amd64
        shift
        ;;
    *) break ;;
    esac
    shift
done
top=$(git -C "$(dirname "$0")" rev-parse --show-toplevel)
# Not in /tmp: it may be a small tmpfs.
root=$(mktemp -d "/var/tmp/damoos-bare-$suite-XXXXXX")
trap 'rm -rf --one-file-system "$root"' EXIT

echo "bare $suite: making it in $root"
mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" "$suite" "$root"
git clone --quiet --no-hardlinks "$top" "$root/root/damoos"
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    if [ -f "$file" ]; then
        cp -L "$file" "$root$file"
    fi
done
network=()
for name in http_proxy https_proxy no_proxy PIP_CERT PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_DEFAULT_TIMEOUT; do
    if [ -n "${!name-}" ]; then
        network+=("$name=${!name}")
    fi
done

echo "bare $suite: make $*"
began=$SECONDS
# The variables are those of the inner shell.
# shellcheck disable=SC2016
unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    enter=$1 root=$2
    shift 2
    mount --bind "$root" "$root"
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t proc proc "$root/proc"
    cd "$root"
    words=(env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "$@")
    if [ "$enter" = chroot ]; then
        exec chroot . "${words[@]}"
    fi
    mkdir .host
    pivot_root . .host
    cd /
    umount -l /.host
    rmdir /.host
    exec "${words[@]}"
' bare "$enter" "$root" "${network[@]}" make -C /root/damoos "$@"
echo "bare $suite: make $* took $((SECONDS - began)) s"
if [ -n "$disk" ]; then
    rm -rf "$root/var/cache/apt" "$root/.host"
    cp -L "$root/vmlinuz" "$disk.vmlinuz"
    cp -L "$root/initrd.img" "$disk.initrd"
    truncate -s 8G "$disk"
    mke2fs -q -F -t ext4 -d "$root" "$disk"
fi
