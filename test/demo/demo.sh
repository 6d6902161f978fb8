#!/bin/sh
# demo.sh shows Paddock at work, from the root of the tree: a real project's
# tests (Paddock's own) run inside a sandbox, and what the sandbox refuses.
# It ends with status 1 where anything that should be refused is not.
set -eu

paddock=./bin/paddock
bad=0
shown=0

title() { printf '\n== %s\n\n' "$*"; }

# refused WHAT COMMAND… runs a command inside that must fail. A status that
# says that the command never ran (125 to 127) or did not end (124) is no
# refusal.
refused() {
	what=$1
	shift
	status=0
	said=$("$paddock" run --timeout 20s -- "$@" 2>&1 </dev/null) || status=$?
	case $status in
	0) verdict='NOT REFUSED' bad=$((bad + 1)) ;;
	12[4567]) verdict='NOT SHOWN' bad=$((bad + 1)) ;;
	*) verdict=refused ;;
	esac
	shown=$((shown + 1))
	printf '%-11s  exit %-3s  %-38s  %s\n' "$verdict" "$status" "$what" "$(printf '%s' "$said" | tr -s '\n\t ' '   ' | cut -c 1-90)"
}

# unchanged FILE COMMAND… runs a command inside that writes to a copy of FILE: the
# command succeeds, and the host's file stays as it is.
unchanged() {
	file=$1
	shift
	before=$(cksum <"$file")
	status=0
	said=$("$paddock" run --timeout 20s -- "$@" 2>&1 </dev/null) || status=$?
	verdict=unchanged
	if [ "$status" -ne 0 ]; then verdict='NOT SHOWN'; fi
	if [ "$before" != "$(cksum <"$file")" ]; then verdict=CHANGED; fi
	if [ "$verdict" != unchanged ]; then bad=$((bad + 1)); fi
	shown=$((shown + 1))
	printf '%-11s  exit %-3s  %-38s  %s\n' "$verdict" "$status" "$*" "$(printf '%s' "$said" | tr -s '\n\t ' '   ' | cut -c 1-90)"
}

# hidden DIR lists a directory of the host inside, where it must be absent or
# empty, but for toolchains that PATH may name there, the sandbox's own caches, and the
# name that leads to the workspace's path.
hidden() {
	status=0
	said=$("$paddock" run --timeout 20s --no-toolchains --cache none -- ls -A "$1" 2>/dev/null </dev/null) || status=$?
	case $PWD in
	"$1"/*)
		below=${PWD#"$1"/}
		said=$(printf '%s\n' "$said" | grep -vxF -e "${below%%/*}" || true)
		;;
	esac
	verdict=hidden
	case $status in
	12[4567]) verdict='NOT SHOWN' ;;
	esac
	if [ -n "$said" ]; then verdict='NOT HIDDEN'; fi
	if [ "$verdict" != hidden ]; then bad=$((bad + 1)); fi
	shown=$((shown + 1))
	printf '%-11s  exit %-3s  ls -A %-32s  %s\n' "$verdict" "$status" "$1" "${said:-(nothing)}" | head -n 1
}

# holders NUMBER lists the host's processes that have NUMBER as an argument.
# The argument of grep itself is not the number alone.
holders() {
	grep -lszx "$1\$" /proc/[0-9]*/cmdline 2>/dev/null | tr -dc '0-9\n' || true
}

alive() { holders "$1" | wc -l | tr -d ' '; }

title 'A command inside: its streams and its exit status come through'
show="echo out; echo err >&2; exit 7"
echo "\$ $paddock run -- sh -c '$show'"
status=0
"$paddock" run -- sh -c "$show" || status=$?
echo "exit status $status"
if [ "$status" -ne 7 ]; then
	echo 'want 7; "./bin/paddock doctor" says what this machine lacks' >&2
	exit 1
fi

title 'A real test suite inside: no network, read-only system, this directory as /workspace'
export GOWORK=off # tests of the product, with its own modules alone
go mod download
goroot=$(go env GOROOT)
modules=$(go env GOMODCACHE)
set -- --ro "$modules:/modules" --ro "$(go env GOCACHE):/compiled"
case $goroot in
"$modules"/*) goroot=/modules${goroot#"$modules"} ;;
/usr/* | /opt/*) ;; # visible already
*) set -- "$@" --ro "$goroot:/goroot" && goroot=/goroot ;;
esac
set -- "$@" --env "PATH=$goroot/bin:/usr/local/bin:/usr/bin:/bin" --env GOMODCACHE=/modules \
	--env GOPROXY=off --env GOWORK=off --env GOTOOLCHAIN=local --env "GOFLAGS=-buildvcs=false -trimpath" \
	--env GOCACHE=/tmp/go-build --env CGO_ENABLED=0
echo "\$ $paddock run --ro MODULES:/modules --env … -- go test ./wire ./policy/..."
# What is compiled already is read from outside, where it is little enough to link.
"$paddock" run "$@" -- sh -c 'cp -rs /compiled "$GOCACHE" && rm -f "$GOCACHE"/*.txt || rm -rf "$GOCACHE"; exec go test ./wire ./policy/...'

title "What a command cannot do (user inside: $("$paddock" run -- id -u))"
hidden /root
if [ "${HOME:-/root}" != /root ]; then hidden "$HOME"; fi
refused 'cat /etc/shadow' cat /etc/shadow
refused 'mount -t tmpfs x /tmp' mount -t tmpfs x /tmp
refused 'echo x > /usr/x' sh -c 'echo x > /usr/x'
refused 'unshare -U true' unshare -U true
refused 'chmod 6755 f' sh -c ': > /tmp/f && chmod 6755 /tmp/f'
refused 'git ls-remote git://192.0.2.1/x' sh -c 'cd /tmp && git ls-remote git://192.0.2.1/x'
if git rev-parse --git-dir >/dev/null 2>&1; then
	hook=$(git rev-parse --git-path hooks)/post-checkout
	refused ': >> .git/hooks/post-checkout' sh -c ': >> "$1"' sh "$hook"
	unchanged "$(git rev-parse --git-path config)" git config core.pager evil
fi
refused ': >> bin/paddock-agent' sh -c ': >> bin/paddock-agent'
links=$("$paddock" run -- sed -n 's/^ *\([^ :]*\):.*/\1/p' /proc/net/dev | tr '\n' ' ')
shown=$((shown + 1))
echo "network interfaces inside: $links"
if [ "$links" != 'lo ' ]; then bad=$((bad + 1)); fi

title 'What a command cannot leave behind: two daemons that fork away, one second of time'
number=$((1000000 + $$))
script="(setsid sleep $number &) ; (setsid sleep $number &) ; sleep $number"
status=0
timeout 1 sh -c "$script" || status=$?
without=$(alive "$number")
for _ in 1 2 3 4 5 6 7 8 9 10; do # the third has its signal, and may need a moment to end
	if [ "$without" -le 2 ]; then break; fi
	sleep 0.5
	without=$(alive "$number")
done
echo "without Paddock:  exit $status, $without processes live on (ended now by hand)"
for pid in $(holders "$number"); do kill "$pid"; done
if [ "$without" -ne 2 ]; then
	echo 'the control failed: it should have left 2' >&2
	bad=$((bad + 1))
fi
number=$((number + 10000000))
script="(setsid sleep $number &) ; (setsid sleep $number &) ; sleep $number"
status=0
"$paddock" run --timeout 1s -- sh -c "$script" || status=$?
left=$(alive "$number")
shown=$((shown + 1))
echo "with Paddock:     exit $status, $left processes live on"
if [ "$status" -ne 124 ] || [ "$left" -ne 0 ]; then bad=$((bad + 1)); fi

printf '\n'
if [ "$bad" -ne 0 ]; then
	echo "demo: $bad things are not as they should be"
	exit 1
fi
echo "demo: $shown of $shown walls held"
