package script

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// patience is how long a test waits for what must happen.
const patience = testkit.Patience

// session is paddock under a terminal of its own.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	ptmx *os.File

	mu     sync.Mutex
	output bytes.Buffer
	grew   chan struct{}
}

// startTerminal runs paddock under a terminal of 30 by 97.
func startTerminal(t *testing.T, args ...string) *session {
	t.Helper()
	return startUnder(t, paddockCommand(t, args...))
}

// startTerminalIn does so with a state directory.
func startTerminalIn(t *testing.T, state string, args ...string) *session {
	t.Helper()
	return startUnder(t, inState(t, state, args...))
}

// startShell runs a script under such a terminal, whose $0 is paddock.
func startShell(t *testing.T, script string) *session {
	t.Helper()
	cmd := paddockCommand(t)
	cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", script, binDir + "/paddock"}
	return startUnder(t, cmd)
}

func startUnder(t *testing.T, cmd *exec.Cmd) *session {
	t.Helper()
	boxtest.RequireWalls(t)
	cmd.Env = append(cmd.Env, "TERM=xterm")
	ptmx, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 97})
	if err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, cmd: cmd, ptmx: ptmx, grew: make(chan struct{}, 1)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = ptmx.Close()
	})
	go s.read()
	return s
}

// paddockCommand is paddock in a workspace of its own.
func paddockCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binDir+"/paddock", args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+stateDir)
	return cmd
}

func (s *session) read() {
	buf := make([]byte, 4096)
	for {
		n, err := s.ptmx.Read(buf)
		s.mu.Lock()
		s.output.Write(buf[:n])
		s.mu.Unlock()
		select {
		case s.grew <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (s *session) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.output.String()
}

// expect waits until the output matches.
func (s *session) expect(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for !re.MatchString(s.text()) {
		select {
		case <-s.grew:
		case <-deadline:
			s.t.Fatalf("the terminal never showed %q:\n%s", pattern, s.text())
		}
	}
}

func (s *session) send(keys string) {
	s.t.Helper()
	if _, err := s.ptmx.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// exit waits for the end and compares the status.
func (s *session) exit(want int) {
	s.t.Helper()
	if got := waitStatus(s.t, s.cmd); got != want {
		s.t.Errorf("exit status %d, want %d:\n%s", got, want, s.text())
	}
}

// waitStatus waits for a program, but not for ever.
func waitStatus(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait() // the status says it all
	return cmd.ProcessState.ExitCode()
}

func TestTerminal(t *testing.T) {
	s := startTerminal(t, "run", "-t", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM; exit 3")
	s.expect(`30 97\r\nxterm\r\n`)
	s.exit(3)
}

func TestShellsHaveATerminal(t *testing.T) {
	for _, shell := range [][]string{{"sh"}, {"bash", "--norc", "-i"}, {"/bin/sh", "-"}} {
		s := startTerminal(t, append([]string{"run", "--"}, shell...)...)
		s.send("test -t 0 && test -t 1 && test -t 2 && stty size && echo end of size\rexit 3\r")
		s.expect(`30 97\r\nend of size\r\n`)
		s.exit(3)
	}
}

// Where the caller has a terminal on all three streams, the command has one.
func TestTerminalUnasked(t *testing.T) {
	s := startTerminal(t, "run", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM; exit 3")
	s.expect(`30 97\r\nxterm\r\n`)
	s.exit(3)
	if python, err := exec.LookPath("/usr/bin/python3"); err == nil {
		s = startTerminal(t, "run", "--", python)
		s.expect(`>>> `)
		s.send("6 * 7\r")
		s.expect(`42\r\n`)
		s.send("exit(4)\r")
		s.exit(4)
	}
}

// exec gives one as run does.
func TestTerminalOfExec(t *testing.T) {
	boxtest.RequireWalls(t)
	state := t.TempDir()
	keptIn(t, state, t.TempDir())
	for _, args := range [][]string{{"exec", "c", "--"}, {"exec", "-t", "c", "--"}} {
		s := startTerminalIn(t, state, append(args, "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM; exit 3")...)
		s.expect(`30 97\r\nxterm\r\n`)
		s.exit(3)
	}
	s := startTerminalIn(t, state, "exec", "--no-tty", "c", "--", "sh", "-c", "test -t 0 || echo none")
	s.expect(`(^|[^ ])none`)
	s.exit(0)
	out, err := inState(t, state, "exec", "-t", "c", "--", "tty").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "cannot run with a terminal: standard input is not one") {
		t.Errorf("without a terminal: %v, %s", err, out)
	}
}

func TestNoTerminal(t *testing.T) {
	for name, args := range map[string][]string{
		"a command":        {"run", "--no-tty", "--", "sh", "-c", "test -t 0 || echo none"},
		"a false flag":     {"run", "--tty=false", "--", "sh", "-c", "test -t 0 || echo none"},
		"a shell":          {"run", "--no-tty", "sh"},
		"not shown":        {"run", "--json", "sh"},
		"empty input":      {"run", "-n", "--", "sh", "-c", "test -t 0 || echo none"},
		"redirected error": {"run", "--", "sh", "-c", "test -t 0 || echo none"},
	} {
		t.Run(name, func(t *testing.T) {
			s := startTerminal(t, args...)
			if name == "redirected error" {
				s = startShell(t, `"$0" run -- sh -c 'test -t 0 || echo none' 2>/dev/null`)
			}
			s.send("test -t 0 && test -t 1 && echo both || echo none\n\x04")
			s.expect(`(^|[^ ])none`)
			s.exit(0)
		})
	}
}

// A key is for all of the job, and what is suspended stands still until it is continued.
func TestKeysWithoutATerminalInside(t *testing.T) {
	s := startTerminal(t, "run", "--no-tty", "--", "sh", "-c", `trap 'echo the command got it' INT
		sh -c 'trap "echo the helper got it; exit" INT; echo ready; while :; do sleep 0.1; done'; exit 9`)
	s.expect("ready")
	s.send("\x03")
	s.expect(`the helper got it\r\nthe command got it`)
	s.exit(9)

	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	s = startShell(t, `PS1='$ ' exec bash --norc --noprofile -i`)
	s.send(binDir + "/paddock run --no-tty -- sh -c 'while :; do echo tick; sleep 0.1; done'\r")
	s.expect(`tick\r\n`)
	s.send("\x1a")
	s.expect(`Stopped`)
	s.send("sleep 1; echo look\r")
	s.expect(`look\r\n`)
	stopped := s.text()
	s.send("sleep 1; echo again\r")
	s.expect(`again\r\n`)
	if more := s.text()[len(stopped):]; strings.Contains(more, "tick") {
		t.Errorf("it goes on: %q", more)
	}
	seen := len(s.text())
	s.send("fg\r")
	testkit.Eventually(t, "it is continued", func() bool { return strings.Contains(s.text()[seen:], "tick\r\n") })
	seen = len(s.text())
	s.send("\x03")
	testkit.Eventually(t, "the shell has its terminal again", func() bool { return strings.Contains(s.text()[seen:], "$ ") })
	s.send("exit 6\r")
	s.exit(6)
}

// A terminal that was raw is so again after a stop, and the command knows how large it has become.
func TestTerminalAfterAStop(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("bash is not installed")
	}
	for _, stop := range []syscall.Signal{syscall.SIGTSTP, syscall.SIGSTOP} {
		s := startShell(t, `PS1='$ ' exec bash --norc --noprofile -i`)
		s.send(binDir + "/paddock run -- sh -c 'echo ready; until stty size | grep \"41 111\"; do sleep 0.1; done; read x; exit 3'\r")
		s.expect(`ready\r\n`)
		raw := func() bool { return ttyModes(t, s.ptmx)&(syscall.ECHO|syscall.ICANON|syscall.ISIG) == 0 }
		testkit.Eventually(t, "the terminal is raw", raw)
		group, err := unix.IoctlGetInt(int(s.ptmx.Fd()), unix.TIOCGPGRP)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(-group, stop); err != nil {
			t.Fatal(err)
		}
		s.expect(`Stopped`)
		if err := pty.Setsize(s.ptmx, &pty.Winsize{Rows: 41, Cols: 111}); err != nil {
			t.Fatal(err)
		}
		s.send("fg\r")
		testkit.Eventually(t, "the terminal is raw again", raw)
		s.expect(`\n41 111\r\n`)
		seen := len(s.text())
		s.send("\r")
		testkit.Eventually(t, "the shell has its terminal again", func() bool { return strings.Contains(s.text()[seen:], "$ ") })
		s.send("exit $?\r")
		s.exit(3)
	}
}

func TestTerminalCols(t *testing.T) {
	if _, err := exec.LookPath("tput"); err != nil {
		t.Skip("tput is not installed")
	}
	s := startTerminal(t, "run", "-t", "--", "sh", "-c", "test -t 0 && tput cols")
	s.expect(`97\r\n`)
	s.exit(0)
}

func TestTerminalIsTheSandboxsOwn(t *testing.T) {
	s := startTerminal(t, "run", "-t", "--", "tty")
	s.expect(`/dev/(pts/0|console)\r\n`)
	s.exit(0)
}

func TestTerminalFollowsTheWindow(t *testing.T) {
	s := startTerminal(t, "run", "-t", "--", "sh", "-c", `trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.1; done`)
	s.expect("ready")
	if err := pty.Setsize(s.ptmx, &pty.Winsize{Rows: 41, Cols: 111}); err != nil {
		t.Fatal(err)
	}
	s.expect(`41 111\r\n`)
	s.exit(0)
}

func TestTerminalKeysGoToTheCommand(t *testing.T) {
	s := startTerminal(t, "run", "-t", "--", "sh", "-c", `trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep 0.1; done`)
	s.expect("ready")
	s.send("\x03")
	s.expect("interrupted")
	s.exit(9)
}

func TestTerminalIsRestored(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		end    func(*session)
	}{
		"by the command": {"read x", func(s *session) { s.send("\r") }},
		"by three INT": {"while :; do sleep 0.1; done", func(s *session) {
			signalThrice(s.t, s.cmd, syscall.SIGINT, func(n int) { s.expect(fmt.Sprintf(`(got\r\n){%d}`, n)) })
		}},
		"by a closed end": {"read x", func(s *session) { s.send("\x04") }},
	} {
		t.Run(name, func(t *testing.T) {
			s := startTerminal(t, "run", "-t", "--", "sh", "-c", "trap 'echo got' INT; echo ready; "+tt.script)
			s.expect("ready")
			if modes := ttyModes(t, s.ptmx); modes&syscall.ECHO != 0 {
				t.Error("the terminal is not raw while the command runs")
			}
			tt.end(s)
			_ = waitStatus(t, s.cmd)
			if modes := ttyModes(t, s.ptmx); modes&syscall.ECHO == 0 || modes&syscall.ICANON == 0 {
				t.Errorf("the terminal was left raw: %o", modes)
			}
		})
	}
}

func TestCtrlCWithoutATerminalInside(t *testing.T) {
	s := startTerminal(t, "run", "--", "sh", "-c", `trap 'echo got it; exit 9' INT; echo ready; while :; do sleep 0.1; done`)
	s.expect("ready")
	s.send("\x03")
	s.expect("got it")
	s.exit(9)
}

func TestErrorsBeforeTheTerminalIsRaw(t *testing.T) {
	s := startTerminal(t, "run", "-t", "--", "no-such-command")
	s.exit(127)
	s.expect(`paddock: cannot .*no-such-command`)
	if strings.Contains(strings.ReplaceAll(s.text(), "\r\n", ""), "\n") {
		t.Errorf("the error was written to a raw terminal: %q", s.text())
	}
}

// At a terminal both streams are one, and what failed is explained all the same.
func TestHintsAtATerminal(t *testing.T) {
	s := startTerminal(t, "run", "--", "sh", "-c", "echo npm error errno EAI_AGAIN >&2; exit 1")
	s.expect(`npm error errno EAI_AGAIN\r\npaddock: perhaps denied: network: none`)
	s.exit(1)
}

func TestOrderAtATerminal(t *testing.T) {
	s := startTerminal(t, "run", "--", "sh", "-c", "for i in 1 2 3 4 5 6; do echo out; echo err >&2; done; exit 7")
	s.exit(7)
	s.expect(`^(out\r\nerr\r\n){6}$`)
}

func TestServerAtATerminal(t *testing.T) {
	s := startTerminal(t, "mcp")
	s.expect(`paddock: waiting for a client on standard input; paddock mcp install --client NAME sets one up\r\n`)
	s.send("\x04")
	s.exit(0)
}

// An agent that is wrapped has a terminal where its caller does.
func TestWrapHasATerminal(t *testing.T) {
	s := startTerminal(t, "wrap", "--", "sh", "-c", `test -t 0 && test -t 1 && stty size && echo $TERM; trap 'stty size; exit 3' WINCH; echo ready; while :; do sleep 0.1; done`)
	s.expect(`30 97\r\nxterm\r\n`)
	s.expect("ready")
	if err := pty.Setsize(s.ptmx, &pty.Winsize{Rows: 41, Cols: 111}); err != nil {
		t.Fatal(err)
	}
	s.expect(`41 111\r\n`)
	s.exit(3)
	s = startTerminal(t, "wrap", "--no-tty", "--", "sh", "-c", "tty; exit 3")
	s.expect("not a tty")
	s.exit(3)
}
