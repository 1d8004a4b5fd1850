#!/bin/sh
dd if=/dev/zero of=z bs=4096 count=16 2>/dev/null; wc -c z
dd if=/dev/zero of=h bs=1 seek=100000 count=1 2>/dev/null; wc -c h; md5sum h
seq 1 1000 > s; dd if=s of=t bs=7 skip=3 count=5 2>/dev/null; cat t; echo
dd if=s bs=100 count=1 conv=ucase 2>/dev/null | wc -c; dd if=s of=z bs=10 count=1 conv=notrunc 2>/dev/null; wc -c z
truncate -s 50 z; wc -c z; truncate -s 10000 z; md5sum z; dd if=nowhere; echo $?; dd if=/dev/full of=/dev/full bs=1 count=1 2>/dev/null; echo $?
