#!/bin/busybox sh
# Tells the names of the kernel's functions, and ends the machine.
/bin/busybox mount -t proc proc /proc
echo 0 > /proc/sys/kernel/kptr_restrict
/bin/busybox sed -n 's/^\([0-9a-f]* [tT] .*\)/guest: symbol \1/p' /proc/kallsyms
/bin/busybox poweroff -f
