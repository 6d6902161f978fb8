package table

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/op/internal/service"
	"github.com/paddock-dev/paddock/op/internal/shell"
)

// Values reach commands, and nothing else: no answer, no error, no log, no record.
func TestSecretsAreNeverTold(t *testing.T) {
	const value, second = "s3cr3t-value-of-ann", "another \"secret\"\nof two lines"
	env := lasting(t)
	log := filepath.Join(t.TempDir(), "audit")
	env.Audit = audit.At(log, audit.Options{})
	var told strings.Builder
	all := func(name string, in fields) any {
		t.Helper()
		out, err := operationTried(t, env, name, in)
		if err != nil {
			told.WriteString(err.Error() + op.HintOf(err))
		}
		if out == nil {
			return nil
		}
		told.Write(mustJSON(t, out))
		if err := operation(t, name).Render(&told, out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	set := all("secret_set", fields{"secrets": fields{"TOKEN": value, "KEY": second}}).(registry.SecretOutput)
	if !slices.Equal(set.Names, []string{"KEY", "TOKEN"}) || set.Path == "" {
		t.Fatalf("%+v", set)
	}
	out := all("exec", fields{"command": "cat " + set.Path + "/TOKEN | rev; cat " + set.Path + "/TOKEN " + set.Path + "/KEY"}).(exec.ExecAnswer)
	if out.Stdout != reversed(value)+"\n[REDACTED][REDACTED]" && out.Stdout != reversed(value)+"[REDACTED][REDACTED]" {
		t.Errorf("%q", out.Stdout)
	}
	out = all("exec", fields{"command": `echo "$TOKEN" | rev; echo "$TOKEN"; echo "$TOKEN" >&2`, "secret_env": []string{"TOKEN"}}).(exec.ExecAnswer)
	if out.Stdout != reversed(value)+"\n[REDACTED]\n" || out.Stderr != "[REDACTED]\n" {
		t.Errorf("%+v", out)
	}
	started := all("service_start", fields{"name": "s", "command": `echo "$TOKEN"; touch done; sleep 1000`, "secret_env": []string{"TOKEN"}, "ready_file": "done", "timeout": "1m"}).(service.ServiceOutput)
	if !started.Ready {
		t.Errorf("%+v", started)
	}
	all("service_start", fields{"name": "f", "command": `echo "$TOKEN" >&2; exit 1`, "secret_env": []string{"TOKEN"}, "ready_file": "none"})
	logs := all("service_logs", fields{"name": "f"}).(service.ServiceLogsOutput)
	if logs.Stderr != "[REDACTED]\n" {
		t.Errorf("%+v", logs)
	}
	shell := all("shell_open", fields{"command": `echo "<$TOKEN>"; exit`, "secret_env": []string{"TOKEN"}, "wait_for": "never", "timeout": "1m"}).(shell.ShellOutput)
	if !strings.Contains(shell.Output, "\n<[REDACTED]>\n") {
		t.Errorf("%+v", shell)
	}
	all("shell_open", fields{"env": []string{value}})
	all("secret_set", fields{"secrets": fields{"TOO": "abc"}})
	all("secret_list", fields{})
	left := all("secret_delete", fields{"names": []string{"KEY"}}).(registry.SecretOutput)
	if !slices.Equal(left.Names, []string{"TOKEN"}) {
		t.Errorf("%+v", left)
	}
	if err := env.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(log + "/*.jsonl")
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		told.Write(text)
	}
	if !strings.Contains(told.String(), `"TOKEN":"[redacted]"`) {
		t.Error("the record does not name the secret")
	}
	for _, hidden := range []string{value, "another", "of two lines"} {
		if i := strings.Index(told.String(), hidden); i >= 0 {
			t.Errorf("%q was told: %s", hidden, told.String()[max(0, i-200):i+100])
		}
	}
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// Sets are added to, replaced and taken away, and belong to one principal.
func TestSecretSets(t *testing.T) {
	env := lasting(t)
	set := func(in fields) registry.SecretOutput {
		t.Helper()
		return well[registry.SecretOutput](t, env, "secret_set", in)
	}
	set(fields{"secrets": fields{"A": "aaaa", "B": "bbbb"}})
	if out := set(fields{"secrets": fields{"C": "cccc", "A": "AAAA"}}); strings.Join(out.Names, "") != "ABC" {
		t.Errorf("%+v", out)
	}
	dir := set(fields{"secrets": fields{"D": "dddd"}}).Path
	// The test is itself no model: it looks at lengths and sums, which are not hidden.
	out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "ls " + dir + "; tr A-Z a-z < " + dir + "/A | tr a x"})
	if out.Stdout != "A\nB\nC\nD\nxxxx" {
		t.Errorf("%q %q", out.Stdout, out.Stderr)
	}
	if out := set(fields{"secrets": fields{"E": "eeee"}, "replace": true}); strings.Join(out.Names, "") != "E" {
		t.Errorf("%+v", out)
	}
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "ls " + dir + "; echo aaaa eeee"}); out.Stdout != "E\naaaa [REDACTED]\n" {
		t.Errorf("%q", out.Stdout)
	}
	if out := well[registry.SecretOutput](t, as(env, "bob"), "secret_list", fields{}); len(out.Names) > 0 || out.Path != "" {
		t.Errorf("bob has %+v", out)
	}
	if out := well[registry.SecretOutput](t, env, "secret_delete", fields{"names": []string{"E"}}); len(out.Names) > 0 {
		t.Errorf("%+v", out)
	}
	big := strings.Repeat("x", 50<<10)
	for _, tt := range []struct {
		op   string
		in   fields
		want string
	}{
		{"secret_set", fields{}, "cannot use secrets: it is missing"},
		{"secret_set", fields{"secrets": fields{"A": "abc"}}, "cannot use secrets.A: a value must have at least 4 bytes"},
		{"secret_set", fields{"secrets": fields{"A": "abc\r\n"}}, "cannot use secrets.A: a value must have at least 4 bytes"},
		{"secret_set", fields{"secrets": fields{"A": "abc\x00d"}}, "cannot use secrets.A: a value cannot hold a NUL byte"},
		{"secret_set", fields{"secrets": fields{"A": big + big}}, "cannot use secrets.A: a value must have at most 64 KiB"},
		{"secret_set", fields{"secrets": fields{"A": big, "B": big, "C": big}}, "cannot use secrets: a sandbox has at most 128 secrets, of 128 KiB together"},
		{"secret_set", fields{"secrets": fields{"../x": "abcd"}}, `cannot use secrets."../x": a name has 1 to 64 letters`},
		{"secret_delete", fields{"names": []string{"E"}}, `cannot delete secret "E": unknown name`},
		{"secret_delete", fields{}, "cannot use names: it is missing"},
	} {
		if _, err := operationTried(t, env, tt.op, tt.in); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.op, err, tt.want)
		}
	}
}

// A command that repeats a value is listed without it, one that ran before the
// secret was known as well, and one whose beginning alone is shown.
func TestSecretsInCommands(t *testing.T) {
	env := lasting(t)
	const value, late = "supersecretvalue123", "known only afterwards"
	well[registry.SecretOutput](t, env, "secret_set", fields{"secrets": fields{"TOK": value + "\n"}})
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo " + value + " >&2; exit 4"})
	well[exec.ExecAnswer](t, env, "exec", fields{"argv": []string{"true", strings.Repeat("x", 85) + value}})
	well[exec.ExecAnswer](t, env, "exec", fields{"command": "echo '" + late + "'"})
	well[registry.SecretOutput](t, env, "secret_set", fields{"secrets": fields{"LATE": late}})
	out := well[sandbox.SandboxStatusOutput](t, env, "sandbox_status", fields{})
	var b strings.Builder
	if err := operation(t, "sandbox_status").Render(&b, out); err != nil {
		t.Fatal(err)
	}
	told := b.String() + string(mustJSON(t, out))
	if strings.Contains(told, "supersecret") || strings.Contains(told, late) || strings.Count(told, "echo [REDACTED]") != 2 || len(out.Execs) != 3 {
		t.Error(told)
	}
}
