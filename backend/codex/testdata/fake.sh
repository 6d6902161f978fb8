#!/bin/sh
# Takes the place of the codex command line in tests. The first line of the
# file "manner" beside it says how it behaves.
manner=$(cat "$(dirname "$0")/manner")
case $manner in
hang) exec sleep 600 ;;
garbage) head -c 300000 /dev/urandom; head -c 300000 /dev/urandom >&2; exit 0 ;;
endless) exec yes "there is no end to what it prints" ;;
esac
if [ "$*" = "sandbox --help" ]; then
	case $manner in
	old) echo "Usage: codex COMMAND"; exit 2 ;;
	word*) printf 'Usage: codex sandbox [OPTIONS] <COMMAND>\n\nCommands:\n  macos  Seatbelt\n  linux  Landlock\n\nOptions:\n  -c, --config <key=value>\n' ;;
	*) printf 'Usage: codex sandbox [OPTIONS] [COMMAND]...\n\nCommands:\n  uninstall  linux\n\nOptions:\n  -c, --config <key=value>\n' ;;
	esac
	echo asked >>"$(dirname "$0")/asked"
	exit 0
fi
if [ "$*" = "sandbox linux --help" ]; then
	[ "$manner" = word-auto ] && echo "      --full-auto"
	exit 0
fi
case $manner in
login) echo "Please log in with 'codex login' first." >&2; exit 1 ;;
panic)
	echo "thread 'main' panicked at linux-sandbox/src/linux_run_main.rs:1:" >&2
	echo "error applying Linux sandbox restrictions: Sandbox(LandlockRestrict)" >&2
	exit 101
	;;
silent) exit 0 ;;
liar) echo '{"nonce":"","write":["","",""]}'; exit 0 ;;
hang-later) exec sleep 600 ;;
esac
while [ "$1" != -- ]; do shift; done
shift
[ "$manner" = banner ] && echo "Welcome to codex!"
exec "$@"
