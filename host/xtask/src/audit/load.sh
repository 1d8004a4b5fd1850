#!/bin/busybox sh
# A load for a Linux's page tables: processes come and go, programs map, protect, fork and hold secret pages, modules are loaded and
# unloaded, memory is moved. What does not work is told in a line `load: …`.
alias b=/bin/busybox
b mount -t proc proc /proc
b mount -t sysfs sysfs /sys
b mount -t devtmpfs dev /dev
b mount -t tmpfs tmpfs /tmp
programs=/programs/* modules=/modules/*.ko pipes=20 round=0
if [ "$load" = short ]; then
    programs="/programs/forking /programs/protecting /programs/remapping /programs/secrets"
    modules=/modules/md4.ko pipes=2
fi
while [ $round -lt ${rounds:-1} ]; do
    for program in $programs; do
        b timeout 900 $program > /tmp/said 2>&1 < /dev/null || echo "load: ${program##*/} ended with $?"
    done
    for module in $modules; do
        b insmod $module || echo "load: $module is not loaded"
    done
    count=0
    while [ $count -lt $pipes ]; do
        b seq 500 | b sort -n | b gzip | b gunzip | b wc -l > /tmp/said
        count=$((count + 1))
    done
    for module in $modules; do
        name=${module##*/}
        b rmmod ${name%.ko} || echo "load: $name stays loaded"
    done
    echo 3 > /proc/sys/vm/drop_caches
    echo 1 > /proc/sys/vm/compact_memory
    round=$((round + 1))
done
echo "guest: ready"
b poweroff -f
