package table

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/service"
	"github.com/paddock-dev/paddock/policy"
)

// server is a command that serves HTTP on a port of loopback with what is in every sandbox.
const server = `use IO::Socket::INET; $| = 1;
my $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8123, Listen => 9, ReuseAddr => 1) or die "cannot listen: $!";
print "listening\n";
while (my $c = $s->accept) { my $line = <$c>; print STDERR "asked $line"; print $c "HTTP/1.0 200 OK\r\n\r\nserved by $$ENV{WHO}\n"; close $c }`

// client fetches from it.
const client = `use IO::Socket::INET; my $s = IO::Socket::INET->new("127.0.0.1:8123") or die "cannot connect: $!";
print $s "GET / HTTP/1.0\r\n\r\n"; print while <$s>`

// A service is started, fetched from by exec, and stopped: they share a loopback.
func TestServiceIsFetched(t *testing.T) {
	env := lasting(t)
	if out := well[exec.ExecAnswer](t, env, "exec", fields{"command": "command -v perl"}); out.ExitStatus() != 0 {
		t.Skip("perl is not installed here")
	}
	text := strings.ReplaceAll(server, "$$ENV", "$ENV")
	if err := os.WriteFile(filepath.Join(env.Default.Workspace.Source, "server.pl"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out := well[service.ServiceOutput](t, env, "service_start", fields{"name": "web", "argv": []string{"perl", "server.pl"}, "env": fields{"WHO": "it's me"},
		"ready_http": "http://127.0.0.1:8123/", "timeout": "2m"})
	if !out.Ready || out.State != "running" || out.Command != "exec 'perl' 'server.pl'" {
		t.Errorf("%+v", out)
	}
	fetched := well[exec.ExecAnswer](t, env, "exec", fields{"argv": []string{"perl", "-e", client}})
	if !strings.HasSuffix(fetched.Stdout, "\nserved by it's me\n") {
		t.Errorf("%+v", fetched)
	}
	if _, err := operationTried(t, env, "service_start", fields{"name": "web", "command": "true"}); err == nil || err.Error() != "cannot start service web: it is running already" {
		t.Error(err)
	}
	logs := well[service.ServiceLogsOutput](t, env, "service_logs", fields{"name": "web"})
	if logs.Stdout != "listening\n" || !strings.Contains(logs.Stderr, "asked GET / HTTP/1.") || logs.StderrTruncated {
		t.Errorf("%+v", logs)
	}
	if logs = well[service.ServiceLogsOutput](t, env, "service_logs", fields{"name": "web", "tail": 0}); logs.Stdout != "" || !logs.StdoutTruncated {
		t.Errorf("%+v", logs)
	}
	list := well[service.ServiceListOutput](t, env, "service_list", fields{})
	if len(list.Services) != 1 || !list.Services[0].Ready {
		t.Errorf("%+v", list)
	}
	if others, err := try[service.ServiceListOutput](t.Context(), t, as(env, "bob"), "service_list", fields{}); err != nil || len(others.Services) > 0 {
		t.Errorf("bob sees %+v, %v", others, err)
	}
	for field, value := range map[string]any{"ready_port": 8123, "ready_http": "http://127.0.0.1:8123/"} {
		// Another that would be taken for ready by the answers of the first.
		_, err := operationTried(t, env, "service_start", fields{"name": "second", "command": "sleep 1000", field: value})
		if own := policy.FieldErrors(err); len(own) != 1 || own[0].Field != field || !strings.Contains(op.HintOf(err), "service_list") {
			t.Errorf("a port that is taken: %v, hint %q", err, op.HintOf(err))
		}
	}
	if list = well[service.ServiceListOutput](t, env, "service_list", fields{}); len(list.Services) != 1 {
		t.Errorf("something was started: %+v", list)
	}
	stopped := well[service.ServiceStopOutput](t, env, "service_stop", fields{"name": "web"})
	if stopped.State != "stopped" || stopped.StopReason != "sigterm" || !stopped.DeathProved || stopped.Ready {
		t.Errorf("%+v", stopped)
	}
	again := well[service.ServiceOutput](t, env, "service_start", fields{"name": "web", "argv": []string{"perl", "server.pl"}, "ready_port": 8123, "timeout": "2m"})
	if !again.Ready {
		t.Errorf("%+v", again)
	}
}

// A service that does not get ready says why, with what it printed.
func TestServiceNotReady(t *testing.T) {
	env := lasting(t)
	for name, tt := range map[string]struct {
		in                  fields
		want, reason, state string
	}{
		"ends":  {fields{"command": "echo first; echo the cause >&2; exit 3", "ready_port": 1}, "it ended with status 3 before it was ready", "process_exited_before_ready", "failed"},
		"hangs": {fields{"command": "echo the cause; sleep 1000", "ready_file": "no", "timeout": "200ms"}, "it was not ready within 200ms, and was ended", "readiness_timeout", "failed"},
	} {
		tt.in["name"] = name
		out, err := try[service.ServiceOutput](t.Context(), t, env, "service_start", tt.in)
		if err == nil || err.Error() != "cannot start service "+name+": "+tt.want || !strings.Contains(op.HintOf(err), "the cause") {
			t.Errorf("%s: %v, %q", name, err, op.HintOf(err))
		}
		if out.State != tt.state || out.StopReason != tt.reason || !strings.Contains(out.LogTail, "the cause\n") {
			t.Errorf("%+v", out)
		}
		status := well[service.ServiceOutput](t, env, "service_status", fields{"name": name})
		if status.State != tt.state || !strings.Contains(status.LogTail, "the cause\n") {
			t.Errorf("%+v", status)
		}
		var b strings.Builder
		if err := operation(t, "service_status").Render(&b, status); err != nil || !strings.HasPrefix(b.String(), "service "+name+": failed") || !strings.HasSuffix(b.String(), "the cause\n") {
			t.Errorf("%q %v", b.String(), err)
		}
	}
	// One that is done at once and asked for nothing is no failure.
	if _, err := try[service.ServiceOutput](t.Context(), t, env, "service_start", fields{"name": "short", "command": "true"}); err != nil {
		t.Error(err)
	}
}

// Who gives up a start leaves nothing behind, whatever it ignores.
func TestServiceCancelled(t *testing.T) {
	env := lasting(t)
	begun := filepath.Join(env.Default.Workspace.Source, "begun")
	start := func(more fields) error {
		_ = os.Remove(begun)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer cancel()
			for ctx.Err() == nil {
				if _, err := os.Stat(begun); err == nil {
					return
				}
				time.Sleep(5 * time.Millisecond)
			}
		}()
		maps.Copy(more, fields{"name": "x"})
		_, err := try[service.ServiceOutput](ctx, t, env, "service_start", more)
		cancel()
		return err
	}
	if err := start(fields{"command": "trap '' TERM INT HUP; setsid sleep 1000 & touch begun; sleep 1000", "ready_file": "never", "timeout": "10m"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left := trees(t, env, "service"); len(left) > 0 {
		t.Errorf("%+v", left)
	}
	// One that is only watched for a while: on a busy host that may be over before.
	err := start(fields{"command": "touch begun; exec sleep 1000"})
	for tries := 0; err == nil && tries < 5; tries++ {
		well[service.ServiceStopOutput](t, env, "service_stop", fields{"name": "x"})
		err = start(fields{"command": "touch begun; exec sleep 1000"})
	}
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("a start that was given up is answered with %v", err)
	}
	for _, tree := range trees(t, env, "service") {
		if tree.Processes > 0 {
			t.Errorf("%+v", tree)
		}
	}
	testkit.Eventually(t, "it is on no list", func() bool { return len(trees(t, env, "service")) == 0 })
	// And one that never began.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := try[service.ServiceOutput](ctx, t, env, "service_start", fields{"name": "y", "command": "sleep 1000"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if left := trees(t, env, "service"); len(left) > 0 {
		t.Errorf("%+v", left)
	}
}

// Logs fit into the budget, the end of both streams first.
func TestServiceLogsAreBounded(t *testing.T) {
	env := lasting(t)
	env.Budget = 8000
	well[service.ServiceOutput](t, env, "service_start", fields{"name": "loud", "command": `for i in $(seq 20000); do echo "\"$i\""; done; echo few >&2; touch done; sleep 1000`, "ready_file": "done", "timeout": "2m"})
	var logs service.ServiceLogsOutput
	for try := 0; !strings.Contains(logs.Stdout, `"20000"`) && try < 1000; try++ { // its output is on its way
		logs = well[service.ServiceLogsOutput](t, env, "service_logs", fields{"name": "loud", "tail": 50000, "limit": 1000000})
	}
	if n := text.JSONSize(logs.Stdout) + text.JSONSize(logs.Stderr); n > env.Budget/2 || n < env.Budget/5 || !logs.StdoutTruncated || logs.StderrTruncated || logs.Stderr != "few\n" {
		t.Errorf("%d characters, %+v", n, logs)
	}
	if !strings.HasSuffix(logs.Stdout, "\n\"20000\"\n") {
		t.Errorf("%q", logs.Stdout)
	}
}

func TestServiceErrors(t *testing.T) {
	env := lasting(t)
	for _, tt := range []struct {
		op   string
		in   fields
		want string
	}{
		{"service_start", fields{"command": "true"}, "cannot use name: it is missing: calls find it by its name"},
		{"service_start", fields{"name": "x"}, "cannot use command: there is nothing to run"},
		{"service_start", fields{"name": "x", "command": "true", "argv": []string{"true"}}, "cannot use command: argv is given, too"},
		{"service_start", fields{"name": "x", "command": "true", "ready_port": 0}, "cannot read the input of service_start: ready_port must be 1 at least"},
		{"service_start", fields{"name": "x", "command": "true", "ready_port": 80, "ready_file": "f"}, "cannot use ready_file: another way to see that it is ready is given, too"},
		{"service_start", fields{"name": "x", "command": "true", "ready_http": "ftp://x"}, `cannot use ready_http "ftp://x": it must be http://HOST`},
		{"service_start", fields{"name": "x", "command": "true", "ready_file": "/etc/passwd"}, `cannot use ready_file "/etc/passwd": it is outside the workspace`},
		{"service_start", fields{"name": "x", "command": "true", "cwd": "../x"}, `cannot use cwd "../x": it leads up with ..`},
		{"service_start", fields{"name": "x", "command": "true", "timeout": "0s"}, `cannot use timeout "0s": it must be above 0`},
		{"service_start", fields{"name": "x", "command": "true", "cwd": "missing"}, "cannot use /workspace/missing as working directory: "},
		{"service_status", fields{"name": "none"}, "cannot look at service none: service 'none' does not exist"},
		{"service_stop", fields{"name": "none"}, "cannot stop service none: service 'none' does not exist"},
		{"service_logs", fields{"name": "none"}, "cannot read the logs of service none: service 'none' does not exist"},
		{"service_logs", fields{"name": "a b"}, `cannot use name "a b": `},
		{"service_list", fields{"sandbox": "other"}, `cannot find sandbox "other"`},
	} {
		if _, err := operationTried(t, env, tt.op, tt.in); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s %v: %v, want %s", tt.op, tt.in, err, tt.want)
		}
	}
	alone := *env
	alone.Sandboxes = nil
	if _, err := operationTried(t, &alone, "service_start", fields{"name": "x", "command": "true"}); err == nil || err.Error() != "cannot use sandbox: no sandbox is named" {
		t.Error(err)
	}
}

// A service finds programs where exec does: the files of login shells, which it is
// started by, do not take its PATH away.
func TestServiceKeepsItsPath(t *testing.T) {
	env := lasting(t)
	env.Options.Path = "/usr/share:/usr/lib"
	exec := well[exec.ExecAnswer](t, env, "exec", fields{"command": `echo "$PATH"`})
	if !strings.HasPrefix(exec.Stdout, "/usr/share:/usr/lib:/") {
		t.Fatalf("%+v", exec)
	}
	for name, own := range map[string]fields{exec.Stdout: {}, "/it's/own\n": {"PATH": "/it's/own"}} {
		well[service.ServiceOutput](t, env, "service_start", fields{"name": "path", "command": `echo "$PATH" > path.new; /bin/mv path.new path; exec /bin/sleep 60`, "env": own, "ready_file": "path", "timeout": "2m"})
		file := filepath.Join(env.Default.Workspace.Source, "path")
		if text, err := os.ReadFile(file); err != nil || string(text) != name {
			t.Errorf("PATH of a service is %q (%v), want %q", text, err, name)
		}
		well[service.ServiceStopOutput](t, env, "service_stop", fields{"name": "path"})
		_ = os.Remove(file)
	}
}
