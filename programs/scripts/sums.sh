#!/bin/sh
printf abc | md5sum; printf abc | sha1sum; printf abc | sha256sum; printf abc | sha512sum
printf abc | cksum; printf 'hello world' | base64; printf 'aGVsbG8=' | base64 -d; echo
head -c 100000 /dev/zero | sha256sum; seq 1 100 > f; md5sum f > s; md5sum -c s; echo x >> f; md5sum -c s; echo $?
printf abc | od -c; printf abc | hexdump -C; printf abc | xxd
