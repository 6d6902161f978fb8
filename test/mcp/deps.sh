#!/bin/sh
# Installs what the tests of the MCP server use, by npm, into .cache/mcp: the
# protocol's official conformance suite and inspector, clients with the loops of
# agents, and a node that is new enough for them: 1.4 GB, of which the programs of
# two clients are 770 MB. The versions and the hashes of the packages are those of
# test/mcp/package-lock.json, which names no registry: npm's own settings do.
#
# With the argument newest it installs the newest version of each, but for node,
# into .cache/mcp-newest.
set -eu
cd "$(dirname "$0")/../.."
command -v npm >/dev/null || { echo "npm is not installed: the MCP server is not tested with the official suites" >&2; exit 1; }
flags="--omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund --loglevel=error"
if [ "${1:-}" = newest ]; then
	dir=.cache/mcp-newest
	mkdir -p "$dir"
	cp test/mcp/package.json test/mcp/package-lock.json "$dir/"
	names=$(sed -n '/"dependencies"/,/}/s/^    "\(.*\)": .*/\1@latest/p' test/mcp/package.json)
	# shellcheck disable=SC2086 # words
	exec npm install --prefix "$dir" --save-exact $flags $names
fi
dir=.cache/mcp
mkdir -p "$dir"
if cmp -s test/mcp/package-lock.json "$dir/installed"; then
	exit 0
fi
cp test/mcp/package.json test/mcp/package-lock.json "$dir/"
# shellcheck disable=SC2086 # words
npm ci --prefix "$dir" $flags
cp test/mcp/package-lock.json "$dir/installed"
