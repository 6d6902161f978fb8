#!/bin/sh
# Makes what "make test-readme" runs the README's commands in, on Debian and as
# root: a new Debian below .cache/readme/root, by mmdebstrap from the mirror of
# this machine's own sources, with what the README asks for and what its examples
# run; and the official build of the Go that runs here, in .cache/readme/go, as
# "go mod download" gives it. Nothing of either is installed here.
set -eu
cd "$(dirname "$0")/../.."
release=trixie
packages=make,git,ca-certificates,bubblewrap,curl,gdb-minimal,iproute2,jq,procps,python3
cache=$PWD/.cache/readme

say() { printf 'readme-deps: %s\n' "$*" >&2; }

[ "$(id -u)" = 0 ] || { say "it needs root: a Debian is unpacked with the owners of its files"; exit 1; }
command -v apt-get >/dev/null || { say "it needs apt-get: the mirror is that of its sources"; exit 1; }

# archive prints the URI and the keyring of Debian's own archive, as this
# machine is configured: the project names no host.
archive() {
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)|$(SIGNED_BY)' 'Created-By: Packages' |
		awk -F'|' '$1 == "Debian" && $2 == "Debian" { if ($4 ~ /^\//) print $3, $4; else print $3; exit }'
}

# root makes the Debian, with an ordinary user.
root() {
	wanted="$release $packages"
	if [ "$(cat "$cache/made" 2>/dev/null)" = "$wanted" ]; then return; fi
	if ! command -v mmdebstrap >/dev/null; then
		apt-get update -q
		DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends mmdebstrap
	fi
	archive=$(archive)
	[ -n "$archive" ] || { say "cannot find Debian's archive among this machine's sources of apt"; exit 1; }
	case $archive in *' '*) keyring=${archive#* } ;; *) keyring=/usr/share/keyrings/debian-archive-keyring.gpg ;; esac
	rm -rf "$cache/root" "$cache/made"
	mkdir -p "$cache"
	# What it mounts in there is for itself alone: a sandbox that shows this tree
	# meanwhile would refuse to show the kernel's own file systems.
	unshare --mount mmdebstrap --mode=root --variant=minbase --include="$packages" --aptopt='APT::Install-Recommends "false"' \
		--customize-hook='chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 dev' \
		"$release" "$cache/root" "deb [signed-by=$keyring] ${archive%% *} $release main"
	echo "$wanted" >"$cache/made"
}

# official unpacks Go, as the go command does where it changes to a toolchain: a
# module holds no right to execute and no go.mod of another.
official() {
	version=$(go env GOVERSION)
	case $(cat "$cache/go/VERSION" 2>/dev/null) in "$version
"*) return ;; esac
	module=golang.org/toolchain@v0.0.1-$version.linux-$(go env GOARCH)
	from=$(GOTOOLCHAIN=local go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	[ -n "$from" ] || { say "cannot get $module"; exit 1; }
	rm -rf "$cache/go" "$cache/go.new"
	mkdir -p "$cache/go.new"
	cp -R "$from/." "$cache/go.new/"
	chmod -R u+w "$cache/go.new"
	find "$cache/go.new/bin" "$cache/go.new/pkg/tool" -type f -exec chmod a+x {} +
	find "$cache/go.new" -name _go.mod | while read -r file; do cp "$file" "${file%_go.mod}go.mod"; done
	mv "$cache/go.new" "$cache/go"
}

root
official
