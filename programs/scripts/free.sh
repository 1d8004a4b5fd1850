#!/bin/sh
free | awk '{ print $1, NF }'; grep -E -o '^(Mem|Swap|Buffers|Cached|Slab|PageTables|Commit|Anon)[A-Za-z_]*' /proc/meminfo | grep -v Huge; head -n 3 /proc/meminfo | awk '{ print $1, $3, ($2 > 0) }'
awk '/MemTotal/ { total = $2 } /MemFree/ { free = $2 } END { print (free < total) }' /proc/meminfo
head -c 20000000 /dev/zero > /tmp/big; awk '/^Cached/ { print ($2 > 19000) }' /proc/meminfo; rm /tmp/big
cut -d ' ' -f 1 /proc/vmstat | head -n 1; awk '{ print NF }' /proc/loadavg; awk '{ print NF }' /proc/uptime; cat /proc/sys/vm/overcommit_memory
cat /proc/sys/vm/max_map_count; cat /proc/sys/vm/swappiness; cat /proc/sys/kernel/pid_max; cat /proc/sys/fs/file-max > /dev/null; echo $?
