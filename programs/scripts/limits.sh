#!/bin/sh
(ulimit -v 20000; head -c 1000 /dev/zero | wc -c); (ulimit -f 1; dd if=/dev/zero of=big bs=1024 count=4 2>/dev/null; echo $?; wc -c < big)
(ulimit -s 256; f() { [ $1 -eq 0 ] || f $(($1 - 1)); }; f 5; echo fine); (ulimit -n 4; cat /dev/null < /dev/null; echo $?)
(ulimit -t 1; ulimit -t); ulimit -H -n > /dev/null; ulimit -u > /dev/null; echo $?
