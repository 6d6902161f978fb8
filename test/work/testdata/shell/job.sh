# Pipelines, and the programs of which they are made.
seq 1 100000 | awk '{ s += $1 } END { print s }'
seq 1 50000 | shuf --random-source=/dev/zero | sort -n --parallel=2 -S 1M | sha256sum
yes line | head -n 100000 | wc -l
seq 1 500 | xargs -P 4 -n 10 sh -c 'echo $#' sh | sort | uniq -c

mkdir -p tree/a/b tree/c 'tree/with space'
for i in $(seq 1 200); do echo "$i" >"tree/a/b/$i"; done
ln -s ../a/b tree/c/link
ln tree/a/b/1 tree/c/hard
mkfifo tree/c/fifo
chmod 750 tree/a
chmod 640 tree/a/b/7
touch -d '2020-02-02 02:02:02 UTC' tree/a/b/9
find tree -name '*9' -type f -print0 | sort -z | xargs -0 cat | paste -sd+ - | sed 's/+/ + /g'
find tree -type f -newermt 2021-01-01 -exec grep -l '^1' {} + | wc -l

tar -C tree --sort=name --owner=0 --group=0 --mtime=@0 -cf - . | tee tree.tar | sha256sum
gzip -n <tree.tar | base64 | base64 -d | gunzip | cmp - tree.tar
mkdir out
tar -C tree -czf - . | tar -C out -xzpf -
diff -r --no-dereference tree/a out/a && echo 'the same'
(cd out && find . ! -type d -printf '%M %n %s %T@ %l %p\n' | sort -k 6 | grep -E '/(7|9|hard|link|fifo)$' |
	sed -E 's/ 1[67][0-9]{8}\.[0-9]+ / now /')
perl -e 'my $pid = fork; if (!$pid) { exit 9 } waitpid $pid, 0; print "perl: ", $? >> 8, "\n"'
perl -pi -e 's/^(\d)$/<$1>/' out/a/b/*
cat out/a/b/? | sort | tr -d '\n'
echo
sed -n '1{p;q}' out/a/b/22
cp -a tree copy && rm -rf tree && mv copy tree && find tree/a/b -type f | wc -l

cat tree/c/fifo &
echo 'through the fifo' >tree/c/fifo
wait
sleep 1000 &
kill $!
wait $! || echo "the job ended with $?"
trap 'echo trapped' TERM
kill -TERM $$
timeout 0.1 sleep 1000 || echo "timeout: $?"
flock lock echo locked
nice -n 5 sh -c 'echo nice'
dd if=/dev/urandom bs=64k count=16 status=none | wc -c
printf '%s\n' 'a 1' 'b 2' | join - tree.tar 2>/dev/null | wc -l
cat missing 2>/dev/null || echo "cat: $?"
test -t 0 || echo 'no terminal'
exit 42
