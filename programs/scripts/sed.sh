#!/bin/sh
printf 'one two\nthree four\n' > f
sed 's/o/0/' f; sed 's/o/0/g' f; sed -n '/three/p' f; sed '1d' f
sed -i 's/two/2/' f; cat f
sed -e 's/\(t[a-z]*\) \(.*\)/\2 \1/' f
sed -n '$=' f; sed 'y/abc/xyz/' f; sed '/one/,/three/s/^/> /' f
