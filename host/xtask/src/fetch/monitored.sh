#!/bin/busybox sh
# Tells what a Linux sees of the machine that a monitor made, brings up CPUs that came late, and ends the machine.
alias b=/bin/busybox
b mount -t proc proc /proc
b mount -t sysfs sysfs /sys
for cpu in /sys/devices/system/cpu/cpu*/online; do
    [ "$(b cat $cpu)" = 1 ] || echo 1 > $cpu
done
b sed -n 's/^\([0-9a-f-]*\) : System RAM/guest: memory \1/p' /proc/iomem
b sed -n 's/^CPU part.*: /guest: part /p' /proc/cpuinfo
count=0
while [ $count -lt 20 ]; do
    b true
    count=$((count + 1))
done
echo "guest: ready"
b poweroff -f
