#!/bin/sh
# Installs the sandboxes that test/bypass compares with: sandbox-runtime and codex by npm, into
# .cache/bypass, and what they need (Debian, as root). The versions and the hashes of their packages
# are those of test/bypass/package-lock.json, which names no registry: npm's own settings do.
set -eu
cd "$(dirname "$0")/../.."
command -v npm >/dev/null || { echo "npm is not installed: there is nothing to compare with" >&2; exit 1; }
if ! command -v socat >/dev/null || ! command -v rg >/dev/null || ! command -v bwrap >/dev/null; then
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends socat ripgrep bubblewrap
fi
dir=.cache/bypass
mkdir -p "$dir"
if cmp -s test/bypass/package-lock.json "$dir/installed"; then
	exit 0
fi
cp test/bypass/package.json test/bypass/package-lock.json "$dir/"
npm ci --prefix "$dir" --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund --loglevel=error
cp test/bypass/package-lock.json "$dir/installed"
