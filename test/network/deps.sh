#!/bin/sh
# Installs the servers and clients of others that test/network uses, on Debian and as root:
# OpenSSH's server, PostgreSQL, a JDK and WebSockets for Python, and a library with which servers
# of an ordinary user know a user.
set -eu
say() { printf 'network-deps: %s\n' "$*" >&2; }

missing=
for file in sbin/sshd bin/ssh-agent bin/git bin/curl bin/node bin/python3 lib/postgresql/*/bin/postgres lib/postgresql/*/bin/psql \
	lib/jvm/default-java/bin/javac lib/python3/dist-packages/websockets lib/*/libnss_wrapper.so; do
	[ -e "/usr/$file" ] || ls /usr/$file >/dev/null 2>&1 || missing=$file
done
if [ -n "$missing" ]; then
	command -v apt-get >/dev/null || { say "$missing is missing, and there is no apt-get"; exit 1; }
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
		openssh-server openssh-client git curl nodejs python3 postgresql postgresql-client default-jdk-headless python3-websockets libnss-wrapper
fi
mkdir -p /run/sshd # as the server's service does
