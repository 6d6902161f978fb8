#!/bin/sh
# clean.sh runs a test program without what the caller's environment says to git, Python, npm,
# proxies and the loader: tests make their own.
for name in $(env | sed -n 's/^\(GIT_[A-Z0-9_]*\|PYTHON[A-Z]*\|LD_[A-Z_]*\|npm_config_[a-z_]*\|NPM_CONFIG_[A-Z_]*\|[a-z]*_proxy\|[A-Z]*_PROXY\)=.*/\1/p'); do
	unset "$name"
done
exec "$@"
