#!/bin/sh
# Installs what test/projects needs: with apt, on Debian and as root, a C compiler,
# make, ccache, Rust with a few packages of its registry, Python and pytest; with
# npm, below .cache/projects, the TypeScript project's packages and programs of
# version managers; with go, the modules of the Go project. No registry is named:
# each client's own settings do.
set -eu
cd "$(dirname "$0")/../.."
say() { printf 'projects-deps: %s\n' "$*" >&2; }
sources=$PWD/test/projects
dir=$PWD/.cache/projects

# Programs and packages of Debian's.
missing=
for program in gcc make ccache cargo rustc python3 git; do
	[ -x "/usr/bin/$program" ] || missing=$program
done
for file in python3/dist-packages/pytest python3.*/ensurepip python3/dist-packages/setuptools; do
	ls -d /usr/lib/$file >/dev/null 2>&1 || missing=$file
done
for crate in fnv itoa semver smallvec; do
	ls -d /usr/share/cargo/registry/$crate-[0-9]* >/dev/null 2>&1 || missing=$crate
done
if [ -n "$missing" ]; then
	command -v apt-get >/dev/null || { say "$missing is missing, and there is no apt-get"; exit 1; }
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
		gcc libc6-dev make ccache cargo rustc git python3 python3-venv python3-setuptools python3-wheel python3-pip python3-pytest \
		librust-fnv-dev librust-itoa-dev librust-semver-dev librust-smallvec-dev
fi

# fetch NAME FROM installs what FROM/package-lock.json has, once.
fetch() {
	if cmp -s "$2/package-lock.json" "$dir/$1/installed"; then return; fi
	mkdir -p "$dir/$1"
	cp "$2/package.json" "$2/package-lock.json" "$dir/$1/"
	npm ci --prefix "$dir/$1" --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund --loglevel=error
	cp "$2/package-lock.json" "$dir/$1/installed"
}
command -v npm >/dev/null || { say "npm is not installed"; exit 1; }
fetch tools "$sources"
fetch typescript "$sources/testdata/typescript"

GOWORK=off go -C "$sources/testdata/go" mod download
