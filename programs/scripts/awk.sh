#!/bin/sh
printf '1 a\n2 b\n3 c\n' > f
awk '{ sum += $1 } END { print sum, NR }' f
awk -F'a' '{ print NF }' f
awk 'BEGIN { for (i = 0; i < 5; i++) x[i] = i * i; for (i = 0; i < 5; i++) printf "%d ", x[i]; print "" }'
awk 'BEGIN { print length("hello"), substr("hello", 2, 3), index("hello", "l"), toupper("abc") }'
awk 'BEGIN { printf "%.3f %e %x\n", 3.14159, 12345.678, 255; print 2 ^ 10, 7 % 3, int(7 / 2) }'
awk '$1 > 1 { print $2 }' f | xargs echo
