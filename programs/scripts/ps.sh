#!/bin/sh
ps | head -n 1; ps -o pid,args > list; grep -c 'ps.sh' list
cat /proc/self/comm; cat /proc/$$/comm; tr '\0' ' ' < /proc/self/cmdline; echo; ls /proc/self/fd; ls -l /proc/self/exe | sed 's/.*->/->/'
readlink /proc/self/cwd; cut -d ' ' -f 2,3 /proc/self/stat; wc -w < /proc/self/stat; wc -w < /proc/self/statm
cut -d : -f 1 /proc/self/status | grep -E '^(N|Umask|State|T|P|Uid|Gid|FD|Groups|VmS|VmR|VmL|VmD|VmE|Rss|Sig|Shd|Cap|Cpus|Mems)'; pidof sh > /dev/null; echo $?; cat /proc/sys/kernel/ostype; cat /proc/mounts > /dev/null; echo $?
ls /proc/self | grep -E '^(auxv|cmdline|comm|cwd|environ|exe|fd|limits|maps|pagemap|smaps|smaps_rollup|stat|statm|status)$'; cat /proc/self/environ | tr '\0' '\n' | sort; grep -v -E 'processes|pending|priority' /proc/self/limits
