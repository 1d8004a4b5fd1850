#!/bin/sh
i=0; while [ $i -lt 150 ]; do (exit 0); i=$((i + 1)); done; echo $i
for i in 1 2 3 4 5 6 7 8; do seq 1 300 | sort -n | tail -n 1 & done; wait
for i in 1 2 3 4; do head -c 1000000 /dev/zero | gzip | gunzip | wc -c & done; wait
x=$(seq 1 3000 | while read n; do echo $n; done | wc -l); echo $x
f() { [ $1 -eq 0 ] || (f $(($1 - 1))); }; f 25; echo deep
