#!/bin/sh
# gotest.sh is "go test -json" for gotestsum: with the race detector, and then
# without it the packages that it teaches nothing.
#
#	gotest.sh RACE UNRACED PACKAGES FLAGS [-test.run=PATTERN PACKAGE]
#
# RACE is -race, or empty for no package; UNRACED is an extended regular expression
# of import paths. The last two are what gotestsum adds to run a failed test again.
set -u
race=$1 unraced=$2 packages=$3 flags=$4
if [ $# -gt 4 ]; then
	flags="$flags $5" packages=$6
fi
# shellcheck disable=SC2086 # words
all=$(go list $packages) || exit
with=
if [ -n "$race" ]; then with=$(printf '%s\n' "$all" | grep -vE "$unraced"); fi
without=$all
if [ -n "$race" ]; then without=$(printf '%s\n' "$all" | grep -E "$unraced"); fi
clean="sh \"$(cd "$(dirname "$0")" && pwd)/clean.sh\""
status=0
# FLAGS are quoted for a shell, hence eval.
if [ -n "$with" ]; then
	eval "CGO_ENABLED=1 go test -json -exec '$clean' -race $flags \$with" || status=$?
fi
if [ -n "$without" ]; then
	eval "CGO_ENABLED=0 go test -json -exec '$clean' $flags \$without" || status=$?
fi
exit $status
