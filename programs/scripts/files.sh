#!/bin/sh
touch f; chmod 640 f; stat -c '%a %s %F %h %u %g' f; ln f g; stat -c %h f; ln -s f l; readlink l; stat -c %F l; ls -l l | sed 's/.*l ->/l ->/'
mkdir d; rmdir d; rmdir d; echo $?; mkdir -p d/e; rmdir d; echo $?; mv f d/; ls d; cp -r d d2; find d2 | sort; rm -r d d2
echo x > o; echo y >> o; cat o; cat < nowhere; echo $?; [ -e o ] && echo there; [ -d o ] || echo no folder; test -x o; echo $?
umask; umask 077; touch p; stat -c %a p; mkdir q; stat -c %a q; mktemp -d ./XXXXXX > /dev/null && echo made
cd /; pwd; cd tmp; pwd; cd ..; pwd; basename /a/b.c .c; dirname /a/b.c; realpath /bin/../tmp/.; ls -d /proc /dev /tmp
touch -d '2020-01-02 03:04:05' o; cd "$OLDPWD"; rm nowhere; echo $?; rm -f nowhere; echo $?; ls -1 /dev/null /dev/zero; stat -c '%F %t,%T' /dev/null
