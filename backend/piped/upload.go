//go:build linux

package piped

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/keeper"
)

// uploadScript is for any POSIX shell, in one line and without single quotes or
// backslashes before quotes, so that other shells hand it on unchanged. It
// reads exactly the agent from standard input, and becomes it.
var uploadScript = strings.Join([]string{
	`umask 077; d=;`,
	`say() { printf "\n%s %s\n" "` + strings.TrimSpace(keeper.UploadMark) + ` NONCE" "$*"; };`,
	`bad() { say failed "$*"; [ -z "$d" ] || rm -rf "$d"; exit 125; };`,
	`for w in mkdir chmod rm; do command -v "$w" >/dev/null 2>&1 || bad "it has no program $w"; done;`,
	`if command -v sha256sum >/dev/null 2>&1; then sum() { sha256sum <"$1"; };`,
	`elif command -v shasum >/dev/null 2>&1; then sum() { shasum -a 256 <"$1"; };`,
	`elif command -v openssl >/dev/null 2>&1; then sum() { openssl dgst -sha256 -r <"$1"; };`,
	`else bad "it has none of the programs sha256sum, shasum and openssl, so what comes could not be checked"; fi;`,
	`if command -v head >/dev/null 2>&1; then get() { head -c SIZE; };`,
	`elif command -v dd >/dev/null 2>&1; then get() { dd bs=1 count=SIZE 2>/dev/null; };`,
	`else bad "it has none of the programs head and dd"; fi;`,
	`for t in "$TMPDIR" /tmp /var/tmp /dev/shm /run "$HOME"; do [ -n "$t" ] || continue; d="$t/paddock-NONCE";`,
	`if mkdir "$d" 2>/dev/null; then printf "#!/bin/sh\nexit 0\n" >"$d/paddock-agent" && chmod 700 "$d/paddock-agent" && "$d/paddock-agent" 2>/dev/null && break;`,
	`rm -rf "$d"; fi; d=; done;`,
	`[ -n "$d" ] || bad "there is no directory in which a program can be made and executed";`,
	`say ready;`,
	`get >"$d/paddock-agent" || bad "it could not be written";`,
	`s=$(sum "$d/paddock-agent");`,
	`[ "${s%% *}" = HASH ] || bad "what came is not what was sent: its hash is ${s%% *}";`,
	`say done;`,
	`exec "$d/paddock-agent" guest --remove "$d"`,
}, " ")

// upload is the command that takes the agent in, which the keeper sends.
func upload(o *keeper.Order, agent *os.File) (command []string, err error) {
	h := sha256.New()
	if o.Upload, err = io.Copy(h, agent); err != nil {
		return nil, fail("agent", "read", agent.Name(), err, "")
	}
	o.UploadNonce = nonce()
	script := strings.NewReplacer("NONCE", o.UploadNonce, "SIZE", strconv.FormatInt(o.Upload, 10), "HASH", hex.EncodeToString(h.Sum(nil))).Replace(uploadScript)
	return []string{"/bin/sh", "-c", script}, nil
}
