#!/bin/sh
# mmdebstrap's customize hook: "$1" is the new root. Takes the kernel out of Debian's own package without
# running its install scripts (they would build a general initrd that damoos does not use), and lays
# the modules that the guest needs into /modules in load order.
set -eu
root=$1
kernel=$2
package=$(chroot "$root" apt-cache depends "$kernel" | sed -n 's/^ *Depends: *\(linux-image-[0-9].*\)$/\1/p' | head -n 1)
# shellcheck disable=SC2016 # "$1" is for the shell inside
chroot "$root" sh -c 'mkdir /kernel && cd /kernel && apt-get -q download "$1"' sh "$package"
mkdir "$root/kernel/x"
dpkg-deb -x "$root"/kernel/*.deb "$root/kernel/x"
cp "$root"/kernel/x/boot/vmlinuz-* "$root/vmlinuz"
cp "$root"/kernel/x/boot/config-* "$root/kernel-config"
lib=$(echo "$root"/kernel/x/lib/modules/*)
[ -d "$lib" ] || lib=$(echo "$root"/kernel/x/usr/lib/modules/*)
mkdir "$root/modules"
depmod -b "${lib%/lib/modules/*}" "${lib##*/}"
for wanted in virtio_pci virtio_blk virtio_net zram; do
    line=$(grep "/$wanted\.ko" "$lib/modules.dep" || true)
    [ -n "$line" ] || continue # built in
    # modules.dep lists what a module needs nearest first, so the load order is the reverse of it.
    order=
    for file in ${line#*:}; do order="$file $order"; done
    for file in $order ${line%%:*}; do
        name=$(basename "$file" .xz)
        [ -e "$root/modules/$name" ] && continue
        case $file in
        *.xz) xz -dc "$lib/$file" > "$root/modules/$name" ;;
        *) cp "$lib/$file" "$root/modules/$name" ;;
        esac
        case $name in
        zram.ko) echo "$name num_devices=0" ;; # the agent adds the device that a study wants
        *) echo "$name" ;;
        esac >> "$root/modules/order"
    done
done
rm -rf "$root/kernel"
