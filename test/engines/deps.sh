#!/bin/sh
# Installs the container engines and the wrappers that tests and benchmarks use
# (Debian, as root). No service is started: the tests start their own.
set -eu
missing=
for program in dockerd docker podman runc busybox bwrap firejail sshd ssh direnv; do
	command -v "$program" >/dev/null || missing=yes
done
[ -n "$missing" ] || exit 0
# What a package would start at its installation is not wanted.
policy=/usr/sbin/policy-rc.d
made=
if [ ! -e "$policy" ]; then
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod +x "$policy"
	made=yes
	trap 'rm -f "$policy"' EXIT
fi
apt-get update -q
engine=docker # Debian's package is named like a registry, which nothing here may name
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
	"$engine.io" podman runc crun busybox-static iptables bubblewrap firejail openssh-server openssh-client direnv
[ -z "$made" ] || rm -f "$policy"
