# A program of several files and a shared library, made in parallel, made
# again when a file changed, and ended by a signal. Then one that does not
# compile.
make -s -j4
make -q && echo 'nothing to make'
touch work.c
make -n | sed 's/-O2.*-o/-o/'
make -s -j4
status=0
./job || status=$?
echo "status $status"
echo 'int main(void) { return 5; }' >five.c
gcc -static -o five five.c
status=0
./five || status=$?
echo "static: status $status"
ar rcs five.a work.o
nm five.a | grep -c ' T work'
strip job
echo "int main(void) { return missing; }" | gcc -x c -o never - 2>/dev/null || exit 23
