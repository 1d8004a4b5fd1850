#!/bin/sh
printf 'a,b,c\n1,2,3\n' > f; cut -d , -f 2 f; paste -s -d + f; tr a-z A-Z < f; rev f; fold -w 3 f; expand f; nl f
printf 'x\n' | xargs -n 1 echo got; seq 1 6 | xargs -n 2 echo; seq 1 5 | head -n 2; seq 1 5 | tail -n 2; split -l 1 f part; ls part*
grep -n b f; grep -v b f; grep -c . f; grep -o '[0-9]' f; grep -E '1|a' f; grep q f; echo $?; expr 3 + 4; expr abc : 'a\(.\)'; factor 360; bc <<X
2^20
X
printf '%05d|%-5s|%x|%c\n' 42 ab 255 z; echo 'a  b' | wc; strings /bin/busybox | head -n 1 | wc -l; tsort <<X
a b
b c
X
cal 1 2024; date -u -d @86400 +%F; sleep 0; usleep 1; env | sort; which sed; logname 2>/dev/null; hostname > /dev/null; echo $?; id; tty; echo $?
