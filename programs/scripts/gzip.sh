#!/bin/sh
seq 1 20000 > f; md5sum f; gzip f; ls; gunzip f.gz; md5sum f
gzip -c f | gunzip -c | cmp - f; echo $?
bzip2 -k f; bunzip2 -c f.bz2 | md5sum; mkdir x; cp f x; tar czf x.tgz x; rm -r x; tar xzf x.tgz; md5sum x/f
tar tzf x.tgz; echo broken > b.gz; gunzip b.gz; echo $?
cpio -o -H newc < /dev/null 2>/dev/null | wc -c
