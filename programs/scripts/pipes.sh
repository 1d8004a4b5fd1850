#!/bin/sh
seq 1 200 | grep 7 | wc -l
yes ok | head -n 5 | uniq -c | sed 's/^ *//'
echo a b c | tr ' ' '\n' | tac | tr '\n' ' '; echo
(echo one; echo two >&2) 2>/dev/null | cat -n
mkfifo f; (sleep 0.05; echo through) > f & cat f; wait
(cat f; echo read) & echo later > f; wait; (: > f) & : < f; wait; echo both
seq 1000 | tee copy | tail -n 1; wc -l < copy
{ echo x; exit 3; } | cat; echo $?
true | false; echo $?
