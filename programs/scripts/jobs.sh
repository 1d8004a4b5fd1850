#!/bin/sh
for i in 1 2 3; do (sleep 0.0$i; exit $i) & done; wait; echo all
(exit 7); echo $?; sh -c 'kill -TERM $$'; echo $?; sh -c 'kill -SEGV $$' 2>/dev/null; echo $?
trap 'echo got USR1' USR1; kill -USR1 $$; trap 'echo leaving' EXIT
sleep 10 & kill $!; wait $!; echo $?; timeout 0.1 sleep 5; echo $?; timeout -s INT 0.1 sleep 5; echo $?
nohup true 2>/dev/null; echo $?; nice -n 5 nice; x=$(echo sub); echo $x; echo $((3 * 7)); exec 3> out; echo via three >&3; exec 3>&-; cat out
ulimit -n; ulimit -s; ulimit -c; ulimit -v; (ulimit -n 10; ulimit -n); set -- a b c; shift; echo $# $1; sh -c 'echo $0 $1' zero one
