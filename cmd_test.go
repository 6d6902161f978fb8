package paddock

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

func TestCommandKeepsStreamsApartAndTellsItsStatus(t *testing.T) {
	s, _ := openFake(t, Spec{})
	var out, errOut bytes.Buffer
	cmd := s.Command(t.Context(), "say", "out", "err", "7")
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	exit := (*ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode != 7 || err.Error() != "exit status 7" {
		t.Fatalf("Run() = %v, want exit status 7", err)
	}
	if out.String() != "out" || errOut.String() != "err" {
		t.Errorf("streams are %q and %q", out.String(), errOut.String())
	}
	r := cmd.Result()
	if r != exit.Result || r.StdoutBytes != 3 || r.StderrBytes != 3 || !r.DeathProved || r.Isolation.Backend != "fake" {
		t.Errorf("Result() = %+v", r)
	}
}

func TestOutput(t *testing.T) {
	s, _ := openFake(t, Spec{})
	out, err := s.Command(t.Context(), "say", "out", "err", "1").Output()
	exit := (*ExitError)(nil)
	if !errors.As(err, &exit) || string(out) != "out" || string(exit.Stderr) != "err" {
		t.Errorf("Output() = %q, %v", out, err)
	}
	out, err = s.Command(t.Context(), "say", "out", "err", "0").CombinedOutput()
	if err != nil || string(out) != "outerr" {
		t.Errorf("CombinedOutput() = %q, %v", out, err)
	}
}

func TestOutputIsBoundedByTheSpec(t *testing.T) {
	s, _ := openFake(t, Spec{Limits: Limits{Output: 10}})
	cmd := s.Command(t.Context(), "say", strings.Repeat("a", 100)+"end", "", "0")
	out, err := cmd.Output()
	if want := "aaaaa\n... 93 bytes left out ...\naaend"; err != nil || string(out) != want {
		t.Errorf("Output() = %q, %v, want %q", out, err, want)
	}
	if r := cmd.Result(); !r.StdoutTruncated || r.StderrTruncated || r.StdoutBytes != 103 {
		t.Errorf("Result() = %+v", r)
	}
}

func TestPipes(t *testing.T) {
	s, _ := openFake(t, Spec{})
	cmd := s.Command(t.Context(), "cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "through"); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(out)
	if err != nil || string(got) != "through" {
		t.Errorf("read %q, %v", got, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestStartErrors(t *testing.T) {
	s, _ := openFake(t, Spec{})
	tests := []struct {
		name  string
		cmd   func(*Cmd)
		is    error
		wants string
	}{
		{"not found", func(c *Cmd) { c.Args = []string{"missing"} }, ErrNotFound, "cannot execute missing: no such file"},
		{"not executable", func(c *Cmd) { c.Args = []string{"forbidden"} }, ErrNotExecutable, "cannot execute forbidden: permission denied"},
		{"no command", func(c *Cmd) { c.Args = nil }, nil, "cannot start the command: no command was given"},
		{"empty command", func(c *Cmd) { c.Args = []string{""} }, nil, "cannot start the command: no command was given"},
		{"NUL in an argument", func(c *Cmd) { c.Args = append(c.Args, "a\x00b") }, nil,
			"cannot start the command: an argument or the directory contains a NUL byte"},
		{"NUL in the directory", func(c *Cmd) { c.Dir = "\x00" }, nil,
			"cannot start the command: an argument or the directory contains a NUL byte"},
		{"bad environment", func(c *Cmd) { c.Env = []string{"secret"} }, nil,
			"cannot start the command: an entry of its environment is not K=V without NUL bytes"},
		{"bad addition to it", func(c *Cmd) { c.AddEnv = []string{"=secret"} }, nil,
			"cannot start the command: an entry of its environment is not K=V without NUL bytes"},
		{"negative timeout", func(c *Cmd) { c.Timeout = -1 }, nil, "cannot start the command: its timeout is negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := s.Command(t.Context(), "say", "", "", "0")
			tt.cmd(cmd)
			err := cmd.Start()
			if err == nil || err.Error() != tt.wants || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("Start() = %v, want %q", err, tt.wants)
			}
			if cmd.Result() != nil {
				t.Error("there is a result")
			}
		})
	}
}

func TestRequestCarriesTheSpec(t *testing.T) {
	s, fake := openFake(t, Spec{Limits: Limits{
		Timeout: Duration(time.Minute), CPUTime: Duration(1500 * time.Millisecond),
		FileSize: 1 << 20, OpenFiles: 64, Processes: 100,
	}})
	cmd := s.Command(t.Context(), "say", "", "", "0")
	cmd.Dir, cmd.Env, cmd.Detach = "sub", []string{"A=1", "A=2"}, true
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	req := fake.asked()
	if req.TimeoutSeconds == nil || *req.TimeoutSeconds != 60 || !req.Stream || !req.ClearEnv || !req.Detach || req.Cwd != "sub" {
		t.Errorf("request is %+v", req)
	}
	if req.Limits != nil {
		t.Errorf("limits are %+v, and the backend keeps those of the spec", *req.Limits)
	}
	if len(req.Env) != 1 || req.Env["A"] != "2" {
		t.Errorf("environment is %v", req.Env)
	}
	if err := s.Command(t.Context(), "say", "", "", "0").Run(); err != nil || fake.asked().ClearEnv {
		t.Errorf("without Env the base environment is cleared (%v)", err)
	}
	for _, base := range [][]string{nil, {"A=1", "B=1"}} {
		cmd := s.Command(t.Context(), "say", "", "", "0")
		cmd.Env, cmd.AddEnv = base, []string{"A=2"}
		if err := cmd.Run(); err != nil || fake.asked().ClearEnv != (base != nil) || fake.asked().Env["A"] != "2" || len(fake.asked().Env) != max(1, len(base)) {
			t.Errorf("over %v: %+v, %v", base, fake.asked(), err)
		}
	}
}

func TestTimeoutToldByTheAgent(t *testing.T) {
	s, fake := openFake(t, Spec{})
	cmd := s.Command(t.Context(), "late")
	cmd.Timeout = time.Minute
	err := cmd.Run()
	if !errors.Is(err, ErrTimeout) || cmd.Result().ExitCode != TimeoutStatus || cmd.Result().SurvivorsKilled != 2 {
		t.Errorf("Run() = %v, %+v", err, cmd.Result())
	}
	if fake.stops != 0 {
		t.Error("the sandbox was stopped although the agent had answered")
	}
}

func TestWatchdogStopsTheSandboxOfADeafAgent(t *testing.T) {
	s, fake := openFake(t, Spec{})
	cmd := s.Command(t.Context(), "deaf")
	cmd.Timeout = 50 * time.Millisecond
	err := cmd.Run()
	r := cmd.Result()
	if !errors.Is(err, ErrTimeout) || r == nil || !r.TimedOut || !r.DeathProved || r.Duration < cmd.Timeout+Grace {
		t.Fatalf("Run() = %v, %+v", err, r)
	}
	if fake.stops != 1 {
		t.Errorf("the sandbox was stopped %d times", fake.stops)
	}
	if err := s.Command(t.Context(), "say", "", "", "0").Run(); !errors.Is(err, ErrClosed) {
		t.Errorf("a command in the stopped sandbox: %v, want ErrClosed", err)
	}
}

func TestTimeoutEndsAWaitForABlockedWriter(t *testing.T) {
	s, _ := openFake(t, Spec{})
	r, w := io.Pipe()
	defer r.Close()
	cmd := s.Command(t.Context(), "wait", "nobody reads this")
	cmd.Stdout, cmd.Stderr, cmd.Timeout = w, w, 10*time.Millisecond
	if err := cmd.Run(); !errors.Is(err, ErrTimeout) {
		t.Errorf("Run() = %v, want ErrTimeout", err)
	}
}

func TestCancelKillsTheCommand(t *testing.T) {
	s, fake := openFake(t, Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	cmd := s.Command(ctx, "wait", "up")
	cmd.Stdout = writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	err := cmd.Run()
	exit := (*ExitError)(nil)
	if !errors.Is(err, context.Canceled) || !errors.As(err, &exit) || exit.Signal != "SIGKILL" || exit.ExitCode != -9 {
		t.Errorf("Run() = %v", err)
	}
	if fake.stops != 0 {
		t.Error("the sandbox did not outlive the command")
	}
	if err := s.Command(ctx, "say", "", "", "0").Start(); !errors.Is(err, context.Canceled) {
		t.Errorf("Start() after the end of its context = %v", err)
	}
}

func TestFailingWriterEndsTheCommand(t *testing.T) {
	s, _ := openFake(t, Spec{})
	cmd := s.Command(t.Context(), "wait", "x")
	cmd.Stdout = writerFunc(func([]byte) (int, error) { return 0, syscall.EPIPE })
	err := cmd.Run()
	if !errors.Is(err, syscall.EPIPE) || cmd.Result().Signal != "SIGPIPE" {
		t.Errorf("Run() = %v, %+v", err, cmd.Result())
	}
}

func TestSignal(t *testing.T) {
	s, _ := openFake(t, Spec{})
	cmd := s.Command(t.Context(), "wait")
	if err := cmd.Signal("INT"); err == nil {
		t.Error("a command that was not started took a signal")
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Signal("NOSUCH"); err == nil || err.Error() != `cannot signal the command: there is no signal "NOSUCH"` {
		t.Errorf("Signal(NOSUCH) = %v", err)
	}
	if err := cmd.Signal("TERM"); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil || err.Error() != "killed by SIGTERM" {
		t.Errorf("Wait() = %v", err)
	}
	if err := cmd.Signal("TERM"); err != nil {
		t.Errorf("a signal after the end: %v", err)
	}
}

func TestBrokenAgents(t *testing.T) {
	s, _ := openFake(t, Spec{})
	if err := s.Command(t.Context(), "vanish").Run(); !errors.Is(err, ErrClosed) {
		t.Errorf("an agent that vanishes: %v", err)
	}
	cmd := s.Command(t.Context(), "nonsense")
	if err := cmd.Run(); err == nil || cmd.Result() != nil {
		t.Errorf("exit code 256 became %v, %+v", err, cmd.Result())
	}
}

func TestMisuse(t *testing.T) {
	s, _ := openFake(t, Spec{})
	cmd := s.Command(t.Context(), "say", "", "", "0")
	if err := cmd.Wait(); err == nil {
		t.Error("Wait before Start succeeded")
	}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err == nil {
		t.Error("a second Start succeeded")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a second Wait succeeded")
	}
	cmd = s.Command(t.Context(), "say")
	cmd.Stdout, cmd.Stdin = io.Discard, strings.NewReader("")
	_, err1 := cmd.Output()
	_, err2 := cmd.CombinedOutput()
	_, err3 := cmd.StdoutPipe()
	_, err4 := cmd.StdinPipe()
	for i, err := range []error{err1, err2, err3, err4} {
		if err == nil {
			t.Errorf("case %d: a stream was set twice", i)
		}
	}
}

func TestCloseIsIdempotentAndTellsUnprovedDeath(t *testing.T) {
	s, fake := openFake(t, Spec{})
	fake.proved = false
	first := s.Close()
	if first == nil || first.Error() != "cannot prove that every process of sandbox fake has ended" {
		t.Errorf("Close() = %v", first)
	}
	if second := s.Close(); second == nil || second.Error() != first.Error() || fake.stops != 1 {
		t.Errorf("second Close() = %v after %d stops", second, fake.stops)
	}
	<-s.Done()
}

func TestOpenRefusesABadSpecBeforeAnythingStarts(t *testing.T) {
	_, err := Open(t.Context(), Spec{Network: policy.Network{Mode: "some"}, Hostname: "-"}, Options{Backend: &fakeBackend{t: t}})
	if got := len(policy.FieldErrors(err)); got != 2 {
		t.Errorf("%d field errors in %v", got, err)
	}
}

// Rules are the backend's to hand on: an agent without them is not used.
func TestOpenRefusesAnAgentWithoutItsRules(t *testing.T) {
	spec := Spec{Redaction: []policy.Redaction{{Type: "email"}, {Name: "key", Pattern: "sk-[a-z]+"}}}
	for _, rules := range [][]string{nil, {"email"}, {"email", "key"}} {
		fake := &fakeBackend{t: t, proved: true, rules: rules}
		s, err := Open(t.Context(), spec, Options{Backend: fake, Agent: executable(t, t.TempDir(), "agent"), StateDir: t.TempDir(), Dir: t.TempDir()})
		if len(rules) < 2 {
			if err == nil || !strings.Contains(err.Error(), "started without the redaction rule") || fake.stops != 1 {
				t.Errorf("with %q: %v, %d stops", rules, err, fake.stops)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := s.Command(t.Context(), "say", "out", "", "0").Output()
		if string(out) != "out" || err != nil || len(fake.asked().Redaction) != 0 {
			t.Errorf("%q, %v, asked %+v", out, err, fake.asked())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
