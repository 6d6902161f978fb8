#!/bin/sh
# Gets what "make test-vm" needs, on Debian and as root: QEMU, a static busybox,
# and two kernels, unpacked below .cache/vm and never installed. What is there
# already is not fetched again.
set -eu
cd "$(dirname "$0")/../.."
cache=$PWD/.cache/vm

say() { printf 'vm-deps: %s\n' "$*" >&2; }

# programs installs the packages whose programs are missing.
programs() {
	missing=
	for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static mkfs.ext4:e2fsprogs; do
		command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
	done
	[ -n "$missing" ] || return 0
	apt-get update -q
	# shellcheck disable=SC2086 # they are words
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
}

# archive prints the URI and the keyring of Debian's own archive, as this
# machine is configured: the project names no host.
archive() {
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)|$(SIGNED_BY)' 'Created-By: Packages' |
		awk -F'|' '$1 == "Debian" && $2 == "Debian" { if ($4 ~ /^\//) print $3, $4; else print $3; exit }'
}

# private runs a program of apt with lists of its own: the system's are not touched.
private() {
	program=$1
	shift
	"$program" -q -o "Dir::Etc::sourcelist=$cache/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
		-o Dir::Etc::preferencesparts=/dev/null -o "Dir::State::lists=$cache/apt/lists" \
		-o "Dir::Cache=$cache/apt/cache" -o APT::Architecture=amd64 -o APT::Architectures=amd64 \
		-o APT::Sandbox::User=root -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false "$@"
}

# lists makes the private lists of one release.
lists() {
	archive=$(archive)
	[ -n "$archive" ] || { say "cannot find Debian's archive among this machine's sources of apt"; exit 1; }
	uri=${archive%% *} options=
	case $archive in *' '*) options="[signed-by=${archive#* }] " ;; esac
	mkdir -p "$cache/apt/lists/partial" "$cache/apt/cache/archives/partial"
	printf 'deb %s%s %s main\n' "$options" "$uri" "$1" >"$cache/apt/sources.list"
	private apt-get update >&2
}

# kernel RELEASE unpacks the kernel that the release has for small machines.
kernel() {
	[ ! -e "$cache/$1/boot" ] || return 0
	lists "$1"
	package=$(private apt-cache show linux-image-cloud-amd64 | sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | head -n 1)
	[ -n "$package" ] || { say "cannot find the kernel of $1"; exit 1; }
	rm -rf "$cache/new"
	mkdir -p "$cache/new/download" "$cache/new/tree"
	(cd "$cache/new/download" && private apt-get download "$package")
	dpkg -x "$cache"/new/download/*.deb "$cache/new/tree"
	mv "$cache/new/tree" "$cache/$1"
	rm -rf "$cache/new" "$cache/apt"
	say "$1: $package"
}

programs
kernel bookworm
kernel trixie
