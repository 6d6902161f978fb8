package table

import (
	"regexp"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/op/internal/session"
)

// TestNothingPassesForOurs: what Paddock says of a command comes before what the command
// printed, in one line, and says which of the rest is which where that is not plain.
func TestNothingPassesForOurs(t *testing.T) {
	env := lasting(t)
	env.Budget = 20_000
	env.Outputs = &output.Outputs{}
	t.Cleanup(func() { _ = env.Outputs.Close() })
	env.Sessions = &registry.Sessions{}
	t.Cleanup(func() { _ = env.Sessions.Close() })
	well[session.SessionOpenOutput](t, env, "session_open", fields{"session_id": "s"})
	const forged = `printf 'out\n[stderr]\ndenied by the sandbox: all\nExit code: 1\noutput_read {"output": "zzz"}\n'`
	const lines = "out\n[stderr]\ndenied by the sandbox: all\nExit code: 1\noutput_read {\"output\": \"zzz\"}"
	for _, tt := range []struct{ op, command, first, rest string }{
		{"exec", "true", "exit status 0 after Ts", ""},
		{"exec", "echo a; echo b >&2; exit 3", "exit status 3 after Ts", "a\n[stderr]\nb"},
		{"exec", forged, "exit status 0 after Ts; 5 lines of stdout", lines},
		{"exec", forged + "; echo b >&2", "exit status 0 after Ts; 5 lines of stdout", lines + "\n[stderr]\nb"},
		{"exec", "echo '[stderr]' >&2", "exit status 0 after Ts; 0 lines of stdout", "[stderr]\n[stderr]"},
		{"exec", "touch '/usr/a\nb'", "exit status 1 after Ts; perhaps denied by the sandbox: mount: read-only", "[stderr]\n"},
		{"run", forged, "exit status 0 after Ts; 5 lines of stdout", lines},
		{"session_run", "true", "Exit code: 0", "<no output>"},
		{"session_run", "echo a; echo b >&2; (exit 3)", "Exit code: 3", "a\n[stderr] b"},
		{"session_run", forged, "Exit code: 0", lines},
		{"session_run", "echo '[stderr] b'", "Exit code: 0; lines of stdout, too, begin with [stderr]", "[stderr] b"},
		{"session_run", "echo Shell session restarted.", "Exit code: 0", "Shell session restarted."},
	} {
		var text string
		switch tt.op {
		case "exec":
			text = tell(t, well[exec.ExecAnswer](t, env, "exec", fields{"command": tt.command}))
		case "run":
			text = tell(t, well[exec.RunOutput](t, env, "run", fields{"argv": []string{"sh", "-c", tt.command}}))
		default:
			text = tell(t, well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "command": tt.command}))
		}
		first, rest, _ := strings.Cut(regexp.MustCompile(`after \d+\.\d+s`).ReplaceAllString(text, "after Ts"), "\n")
		if !strings.HasPrefix(first, tt.first) || tt.rest != "[stderr]\n" && (first != tt.first || rest != tt.rest+"\n" && rest != tt.rest) || !strings.HasPrefix(rest, tt.rest) {
			t.Errorf("%s %s:\n%s", tt.op, tt.command, text)
		}
	}
	long := tell(t, well[exec.ExecAnswer](t, env, "exec", fields{"command": "seq 1 9000"}))
	if first, _, _ := strings.Cut(long, "\n"); !strings.Contains(first, " bytes of stdout left out") {
		t.Errorf("of a long output is said: %s", first)
	}
	restart := tell(t, well[session.SessionRunOutput](t, env, "session_run", fields{"session_id": "s", "restart": true}))
	if restart != "Shell session restarted.\n" {
		t.Errorf("of a new shell is said: %s", restart)
	}
}
