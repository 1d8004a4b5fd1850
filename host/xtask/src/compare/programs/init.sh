#!/bin/busybox sh
# The first process of both kernels: runs every program, and tells what it said and ended with.
export PATH=/bin:/programs
/bin/busybox mkdir -p /sbin /usr/bin /usr/sbin /root
if [ "$1" != ours ]; then
    /bin/busybox mount -t devtmpfs dev /dev
    /bin/busybox mount -t proc proc /proc
    /bin/busybox mkdir -p /sys
    /bin/busybox mount -t sysfs sys /sys
fi
/bin/busybox --install -s /bin
mkdir -p /dev/shm
chmod 1777 /tmp /dev/shm
limit=$(cat /etc/seconds)
while read -r name; do
    echo "@@begin $name"
    mkdir /work
    cd /work
    case $name in
    *.sh) run="sh /programs/$name" ;;
    *) run="/programs/$name" ;;
    esac
    env -i PATH="$PATH" HOME=/root TMPDIR=/tmp timeout -s KILL "$limit" $run < /dev/null > /output 2>&1
    status=$?
    # Whoever is left would be there with the next program.
    kill -9 -1
    cd /
    rm -rf /work /tmp/* /dev/shm/*
    echo "@@output $name"
    head -c 1000000 /output
    echo
    echo "@@end $name $status"
done < /etc/programs
rm -f /output
[ "$1" = ours ] || poweroff -f
