#!/bin/sh
# Installs the codex command line that the tests of backend codex use, by npm,
# into .cache/engines/codex. The version and the hashes of its packages are
# those of test/engines/codex/package-lock.json, which names no registry: npm's
# own settings do.
set -eu
cd "$(dirname "$0")/../.."
command -v npm >/dev/null || { echo "npm is not installed: codex is not tested" >&2; exit 1; }
dir=.cache/engines/codex
mkdir -p "$dir"
if cmp -s test/engines/codex/package-lock.json "$dir/package-lock.json" && [ -x "$dir/node_modules/.bin/codex" ]; then
	exit 0
fi
cp test/engines/codex/package.json test/engines/codex/package-lock.json "$dir/"
exec npm ci --prefix "$dir" --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund --loglevel=error
