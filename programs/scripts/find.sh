#!/bin/sh
mkdir -p a/b/c d; touch a/1 a/b/2 a/b/c/3 d/4; ln -s ../a d/l
find . | sort; find . -type f | sort; find . -type l; find . -name '[23]' | sort
find a -exec echo {} + | tr ' ' '\n' | sort
find . -empty -type f | wc -l; find a -maxdepth 1 | sort; find . -newer a/1 2>/dev/null | wc -l > /dev/null
du -a a 2>/dev/null | wc -l; find a -depth | tail -n 1; find nowhere; echo $?
