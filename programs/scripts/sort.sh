#!/bin/sh
printf '%s\n' b a C 10 9 2 a | sort
printf '%s\n' 10 9 2 33 | sort -n
printf '%s\n' 10 9 2 33 | sort -rn
printf '%s\n' 'b 2' 'a 3' 'c 1' | sort -k2
printf '%s\n' a a b b b c | sort -u
printf '%s\n' a a b b b c | uniq -c | sed 's/^ *//'
printf '%s\n' a b c > l; printf '%s\n' b c d > r; comm l r; diff l r; echo $?
seq 5000 | sort -R 2>/dev/null | sort -n | md5sum
