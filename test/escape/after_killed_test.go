//go:build linux

package escape

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit"
)

// killedAttacks end with the death of who would have told: then the next start
// tells, or doctor does.
func killedAttacks() []later {
	const (
		nested = `git init -q src; evil x; git -C src config core.fsmonitor "$WS/x"`
		status = `git -C src status`
		rc     = `echo ': >"$CANARY"' >.envrc`
		sh     = `sh ./.envrc`
	)
	row := func(name, tells string, by door, attack, next, trigger string) later {
		return later{name: name, want: wantTold, tells: tells, by: by, attack: attack, trigger: next + "\n" + trigger, control: trigger}
	}
	return []later{
		row("run is killed, and the next run tells", "src/.git", byKilled, nested, `paddock run -- true`, status),
		row("run is killed, and a run elsewhere tells", "src/.git", byKilled, nested, `mkdir "$DIR/other"; paddock run -w "$DIR/other" -- true`, status),
		row("run is killed, and doctor tells", "src/.git", byKilled, nested, `paddock doctor 2>&1 | sed 's/^/paddock: /'`, status),
		row("run is killed, and the next session tells", ".envrc", byKilled, rc, `paddock session -w . </dev/null`, sh),
		row("run is killed, and the record has it", ".envrc", byKilled, rc, `paddock run -- true 2>/dev/null; paddock audit --raw | grep '"kind":"planted"' | sed 's/^/paddock: /'`, sh),
		row("a session is killed, and the next run tells", ".envrc", byKilledSession, rc, `paddock run -- true`, sh),
		row("a model's server is killed, and the next run tells", ".envrc", byKilledModel, rc, `paddock run -- true`, sh),
		row("a model's server is killed, and the next one tells", ".envrc", byKilledModel, rc, `cat >"$DIR/calls" <<'END'
{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"exec","arguments":{"command":"true"}}}
END
{ cat "$DIR/calls"; sleep 3; } | paddock mcp --workspace . 2>&1 >/dev/null | sed 's/^/paddock: /'`, sh),
	}
}

// sessionAttacks have a background program of a session answer for its shell.
func sessionAttacks() []later {
	return []later{
		{name: "a background program answers for bash", want: wantStopped, by: bySessionForged("/bin/bash"), prepare: forger, attack: `sh forger $$ >/dev/null 2>&1 &`, plain: `:`, trigger: `grep -q forged answers && harm`, control: forgedControl},
		{name: "a background program answers for sh", want: wantStopped, by: bySessionForged("/bin/sh"), prepare: forger, attack: `sh forger $$ >/dev/null 2>&1 &`, plain: `:`, trigger: `grep -q forged answers && harm`, control: forgedControl},
	}
}

// forger gets in line before the shell for what that reads next: a process
// that is stopped and goes on waits anew, behind it. It takes the line in the shell's
// place, and reports success with the word that it finds in it.
const forger = `cat >forger <<'END'
sleep 1
true <"/proc/$1/fd/0" || { touch ready; exit; }
exec 9<"/proc/$1/fd/0"
{ sleep 0.5; kill -STOP "$1"; kill -CONT "$1"; sleep 0.2; touch ready; } &
word=$(dd bs=4096 count=1 <&9 | grep -oE '[A-Za-z0-9]{12,}' | head -n 1)
for fd in 43 9; do
	[ -p "/proc/$1/fd/$fd" ] && printf '\n%s 0 himBHs\n/workspace\n\n%s.\n' "$word" "$word" >"/proc/$1/fd/$fd"
done
END`

// forgedControl is a shell that reads its lines from a pipe, and reports over another.
const forgedControl = `
mkfifo in report
sh <in 9>report &
shell=$!
exec 3>in 4<report
echo "sh forger $shell &" >&3
for i in $(seq 300); do [ -e ready ] && break; sleep 0.1; done
printf '%s\n' "echo FAILED; false; printf '\nword2345word6 %s\n' \$? >&9" >&3
timeout 20 head -n 2 <&4 | grep -q 'word2345word6 0' && harm
kill -KILL $shell
`

// bySessionForged gives a session the attack, and then a command that fails.
// The file answers in the workspace gets "forged" where that is told as a success.
func bySessionForged(shell string) door {
	return func(t *testing.T, s *scene, r later, script string) (bool, string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		cmd := s.paddock(ctx, r.env, "session", "--json", "-w", s.ws, "--shell", shell, "--termination-timeout", "1s")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{script, `echo the tests FAILED; false`} {
			request, err := json.Marshal(map[string]string{"command": command})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := in.Write(append(request, '\n')); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patience); time.Now().Before(end) && command == script; time.Sleep(20 * time.Millisecond) {
				if _, err := os.Stat(filepath.Join(s.ws, "ready")); err == nil {
					break
				}
			}
		}
		_ = in.Close()
		_ = cmd.Wait()
		answers := strings.Split(strings.TrimSpace(out.String()), "\n")
		last := answers[len(answers)-1]
		if len(answers) == 2 && strings.Contains(last, `"exit_code":0`) && !strings.Contains(last, "FAILED") {
			testkit.Write(t, filepath.Join(s.ws, "answers"), "forged", 0o644)
		}
		return strings.Contains(answers[0], ranMark), said.String() + out.String()
	}
}
