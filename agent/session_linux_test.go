package agent_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/wire"
)

// sessionBox is a sandbox with one session in it.
type sessionBox struct {
	*box
	id string
}

// openSession opens a session in a sandbox of its own.
func openSession(t *testing.T, q wire.OpenSessionRequest) *sessionBox {
	t.Helper()
	b := start(t)
	return b.session(q)
}

func (b *box) session(q wire.OpenSessionRequest) *sessionBox {
	b.t.Helper()
	if q.SessionID == "" {
		q.SessionID = "s"
	}
	if _, err := wire.Call(b.context(), b.client, wire.OpenSession, q); err != nil {
		b.t.Fatalf("cannot open the session: %v", err)
	}
	return &sessionBox{b, q.SessionID}
}

func (s *sessionBox) try(q wire.RunSessionRequest) (wire.RunSessionResult, error) {
	q.SessionID = s.id
	return wire.Call(s.context(), s.client, wire.RunSession, q)
}

// do runs a command that must be answered.
func (s *sessionBox) do(q wire.RunSessionRequest) wire.RunSessionResult {
	s.t.Helper()
	r, err := s.try(q)
	if err != nil {
		s.t.Fatalf("cannot run %q: %v", q.Command, err)
	}
	return r
}

func (s *sessionBox) sh(command string) wire.RunSessionResult {
	s.t.Helper()
	return s.do(wire.RunSessionRequest{Command: osstring.String(command)})
}

func (s *sessionBox) restart() {
	s.t.Helper()
	if _, err := wire.Call(s.context(), s.client, wire.RestartSession, wire.SessionRequest{SessionID: s.id}); err != nil {
		s.t.Fatal(err)
	}
}

// printed is one stream of a result.
func printed(r wire.RunSessionResult, stream string) string {
	var b strings.Builder
	for _, c := range r.Output {
		if c.Stream == stream {
			b.WriteString(c.Data)
		}
	}
	return b.String()
}

// shellsHere are the shells that sessions are tested with.
func shellsHere(t *testing.T) map[string][]string {
	t.Helper()
	list := map[string][]string{}
	for name, argv := range map[string][]string{"bash": {"/bin/bash"}, "dash": {"/bin/dash"}, "busybox": {"/bin/busybox", "ash"}} {
		if _, err := os.Stat(argv[0]); err == nil {
			list[name] = argv
		} else if path, err := exec.LookPath(argv[0][5:]); err == nil {
			list[name] = append([]string{path}, argv[1:]...)
		}
	}
	return list
}

// oddity is a command, or several, and what comes of the last.
type oddity struct {
	name     string
	before   []string // commands
	command  string
	stdin    string
	out, err string // err is contained
	code     int
	ended    bool
	bash     bool // needs it
}

var oddities = []oddity{
	{name: "nothing", command: ""},
	{name: "a comment", command: "# x"},
	{name: "status", command: "false", code: 1},
	{name: "a status that is asked for", before: []string{"(exit 7)"}, command: "echo $?", out: "7\n"},
	{name: "state", before: []string{"a=1; cd /tmp; f() { echo f$1; }; umask 027"}, command: "f $a; pwd; umask", out: "f1\n/tmp\n0027\n"},
	{name: "no newline at the end", command: "printf x", out: "x"},
	{name: "both streams", command: "echo o; echo e >&2; echo o2", out: "o\no2\n", err: "e\n"},
	{name: "no input", command: "read x; echo $?; cat", out: "1\n"},
	{name: "input", command: "read x; echo [$x]; cat", stdin: "a\nb", out: "[a]\nb"},
	{name: "input and then none", before: []string{"cat </dev/null"}, command: "cat"},
	{name: "syntax error", command: "if; then", err: "yntax error", code: 2},
	{name: "an open quote", command: `echo "x`, err: "", code: 2},
	{name: "after an open quote", before: []string{`echo 'x`}, command: "echo fine", out: "fine\n"},
	{name: "an open heredoc", command: "cat <<E\nx", out: "x"},
	{name: "an open if", command: "if true; then", code: 2},
	{name: "an open brace", command: "{ echo x", code: 2},
	{name: "a brace too many", command: "}", code: 2},
	{name: "not found", command: "no_such_command_here", err: "not found", code: 127},
	{name: "set -u", command: "set -u; echo $no_such_variable; echo z", err: "no_such_variable"},
	{name: "after set -u", before: []string{"set -u; echo $no_such_variable", "set +u"}, command: "echo [$no_such_variable]", out: "[]\n"},
	{name: "a variable with an error", command: "echo ${no_such?bad}; echo z", err: "bad"},
	{name: "readonly", before: []string{"readonly r=1"}, command: "r=2; echo z", err: "r"},
	{name: "after readonly", before: []string{"readonly r=1", "r=2"}, command: "echo $r", out: "1\n"},
	{name: "shift", before: []string{"shift 5"}, command: "echo x", out: "x\n"},
	{name: "a file that is not there", before: []string{". /no/such/file"}, command: "echo x", out: "x\n"},
	{name: "exit", command: "exit 3", code: 3, ended: true},
	{name: "exit and its trap", before: []string{"trap 'echo bye' EXIT"}, command: "exit", out: "bye\n", ended: true},
	{name: "exec", command: "exec echo x", out: "x\n", ended: true},
	{name: "exec of nothing", command: "exec /no/such/program", err: "o", code: 127, ended: true},
	{name: "set -e", command: "set -e; false; echo z", code: 1, ended: true},
	{name: "set -e goes on", before: []string{"set -e"}, command: "false || true; echo x", out: "x\n"},
	{name: "killed", command: "kill -9 $$", code: -9, ended: true},
	{name: "stopped", command: "kill -STOP $$; echo x", out: "x\n"},
	{name: "noexec", before: []string{"set -n"}, command: "echo x", out: "x\n", bash: true},
	{name: "a job", command: "sleep 100 >/dev/null 2>&1 & echo x", out: "x\n"},
	{name: "a job that holds the pipes", command: "sleep 100 & echo x", out: "x\n"},
	{name: "wait for a job", before: []string{"true & p=$!"}, command: "wait $p; echo $?", out: "0\n"},
	{name: "no output any more", before: []string{"exec 1>&-"}, command: "true"},
	{name: "another descriptor", before: []string{"exec 3>&1"}, command: "echo x >&3", out: "x\n"},
	{name: "output to a file", before: []string{"exec 4>&1 >/tmp/f; echo x; exec >&4 4>&-"}, command: "cat /tmp/f", out: "x\n"},
	{name: "descriptor ten", before: []string{"exec 10>/tmp/ten", "echo x >&10"}, command: "cat /tmp/ten", out: "x\n", bash: true},
	{name: "own descriptors are closed", command: "ls /proc/self/fd | sort -n | tail -1", out: "3\n"},
	{name: "DEBUG", before: []string{"trap 'echo D' DEBUG"}, command: "true; true", out: "D\nD\n", bash: true},
	{name: "ERR", before: []string{"trap 'echo E' ERR"}, command: "false", out: "E\n", code: 1, bash: true},
	{name: "traps stay", before: []string{"trap 'echo E' ERR", "true"}, command: "trap -p ERR", out: "trap -- 'echo E' ERR\n", bash: true},
	{name: "set -x", before: []string{"set -x"}, command: "echo x", out: "x\n", err: "+ echo x\n"},
	{name: "after set -x", before: []string{"set -x", "set +x"}, command: "echo x; echo y >&2", out: "x\n", err: "y\n"},
	{name: "eval is a function", before: []string{"eval() { echo mine; }"}, command: "eval x; echo y", out: "mine\ny\n", bash: true},
	{name: "printf is a function", before: []string{"printf() { echo mine; }"}, command: "printf x", out: "mine\n"},
	{name: "command is a function", before: []string{"command() { echo mine; }"}, command: "command x", out: "mine\n"},
	{name: "exec is a function", before: []string{"exec() { echo mine; }"}, command: "exec x; cat", out: "mine\n", bash: true},
	{name: "builtin is a function", before: []string{"builtin() { echo mine; }"}, command: "builtin echo x", out: "x\n", bash: true},
	{name: "an alias", before: []string{"alias hi='echo hello'"}, command: "hi", out: "hello\n"},
	{name: "aliases of ours", before: []string{"alias printf=false set=false command=false eval=false exec=false trap=false"}, command: "echo x", out: "x\n"},
	{name: "IFS", before: []string{"IFS=0123456789"}, command: "echo x", out: "x\n"},
	{name: "no positional", before: []string{"set -- a b"}, command: "echo $# $2", out: "2 b\n"},
	{name: "return", command: "return 4", code: 4, bash: true},
	{name: "break", command: "break; echo x", out: "x\n"},
	{name: "a prompt", before: []string{"PS1='prompt> '; PS2='more> '; PS4='trace '"}, command: "echo x", out: "x\n"},
	{name: "a directory that is gone", before: []string{"mkdir /tmp/gone; cd /tmp/gone; rmdir /tmp/gone"}, command: "echo x", out: "x\n"},
	{name: "ulimit", before: []string{"ulimit -n 64"}, command: "ulimit -n", out: "64\n"},
	{name: "quotes", command: `echo 'it'"'"'s' "a\"b" \'`, out: "it's a\"b '\n"},
	{name: "lines", command: "echo a\necho b\n\necho c", out: "a\nb\nc\n"},
	{name: "a here document", command: "cat <<'E'\n$x `y`\nE\n", out: "$x `y`\n"},
	{name: "an array", before: []string{"declare -A m=([a]=1); x=(1 2 3)"}, command: `echo ${m[a]} ${#x[@]}`, out: "1 3\n", bash: true},
	{name: "options of the shell", before: []string{"shopt -s extglob"}, command: "case ab in @(ab|c)) echo x;; esac", out: "x\n", bash: true},
	{name: "text with a dash", command: "-x", code: 127},
	{name: "a quote that does not end", before: []string{"(exit 3)"}, command: "echo 'a", err: "ine 1: unexpected EOF while looking for matching `''\n", code: 2, bash: true},
	{name: "a bracket too many", command: "true\ntrue; echo 'it'\"'\"'s' )", err: "bash: eval: line 2: `true; echo 'it'\"'\"'s' )'\n", code: 2, bash: true},
	{name: "a word that does not fit", before: []string{"(exit 3)"}, command: "fi", err: "bash: eval: line 1: `fi'\n", code: 2, bash: true},
	{name: "a word that does not fit, elsewhere", before: []string{"(exit 3)"}, command: "if true; then\n)", err: "yntax error", code: 2},
	{name: "the number of a line", before: []string{"(exit 3)"}, command: "echo $? $LINENO\necho $LINENO", out: "3 1\n2\n", bash: true},
	{name: "a wrong line under a trace", before: []string{"set -x", "(exit 3)"}, command: "fi", err: ": `fi'\n", code: 2, bash: true},
	{name: "a wrong line with traps", before: []string{"trap 'echo D >/dev/null' DEBUG; trap : ERR RETURN"}, command: "fi", err: ": `fi'\n", code: 2, bash: true},
}

func TestSessionOddities(t *testing.T) {
	for name, argv := range shellsHere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSession(t, wire.OpenSessionRequest{ShellCommand: argv, CommandTimeout: 10})
			for _, tt := range oddities {
				if tt.bash && name != "bash" {
					continue
				}
				tt.check(t, s)
				s.restart()
			}
		})
	}
}

func (tt oddity) check(t *testing.T, s *sessionBox) {
	t.Helper()
	for _, c := range tt.before {
		if r := s.sh(c); r.TimedOut || r.ShellEnded || r.Restarted {
			t.Errorf("%s: %q: %+v", tt.name, c, r)
			return
		}
	}
	r := s.do(wire.RunSessionRequest{Command: osstring.String(tt.command), Stdin: tt.stdin})
	anyCode := tt.err != "" && tt.code == 0 && r.ExitCode > 0 && r.ExitCode < 3 // shells differ
	if strings.TrimSuffix(printed(r, "stdout"), "\n") != strings.TrimSuffix(tt.out, "\n") || !strings.Contains(printed(r, "stderr"), tt.err) || r.ExitCode != tt.code && !anyCode {
		t.Errorf("%s: stdout %q, stderr %q, status %d, want %q, %q, %d", tt.name, printed(r, "stdout"), printed(r, "stderr"), r.ExitCode, tt.out, tt.err, tt.code)
	}
	if strings.Contains(printed(r, "stderr"), "paddock") || strings.Contains(printed(r, "stderr"), `\`) {
		t.Errorf("%s: it shows what is not the command's: %q", tt.name, printed(r, "stderr"))
	}
	if r.ShellEnded != tt.ended || r.StateKept == tt.ended || r.TimedOut || r.Restarted || !r.DeathProved || r.LateBytes != 0 {
		t.Errorf("%s: %+v", tt.name, r)
	}
	if !tt.ended {
		return
	}
	var refused *wire.Error
	if _, err := s.try(wire.RunSessionRequest{Command: "true"}); !errors.As(err, &refused) || refused.Code != wire.CodeConflict {
		t.Errorf("%s: the next command: %v", tt.name, err)
	}
}

// A command whose time is up ends with all it has started; the shell stays
// where it lets itself be interrupted.
func TestSessionTimeout(t *testing.T) {
	for name, argv := range shellsHere(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openSession(t, wire.OpenSessionRequest{ShellCommand: argv})
			for _, tt := range []struct {
				command string
				kept    bool
			}{
				{"echo before; sleep 100; echo after", true},
				{"echo before; while :; do :; done", true},
				{"echo before; f() { while :; do sleep 100; done; }; f; echo after", true},
				{"echo before; (trap '' INT; sleep 100; sleep 100) ; sleep 100", true},
				{"echo before; setsid sleep 100 & setsid sleep 100; wait", true},
				{"echo before; sleep 100 | sleep 100; echo after", true},
				{"echo before; trap '' INT; while :; do :; done", false},
				{"echo before; exec sleep 100", false},
			} {
				s.sh("state=kept; sleep 300 &")
				r := s.do(wire.RunSessionRequest{Command: osstring.String(tt.command), Timeout: 0.3})
				if name == "busybox" && r.Restarted {
					tt.kept = false // its handler of interrupts may wait for ever for its own memory's lock
				}
				if !r.TimedOut || r.ExitCode != 124 || r.StateKept != tt.kept || r.Restarted == tt.kept || r.ShellEnded || !r.DeathProved || printed(r, "stdout") != "before\n" {
					t.Errorf("%q: %+v", tt.command, r)
				}
				want := "kept\n"
				if !tt.kept {
					want = "\n"
				}
				r = s.sh("echo $state")
				if got := printed(r, "stdout"); got != want || tt.kept != (r.Jobs > 0) || len(r.Late) > 0 {
					t.Errorf("after %q: %q, %+v", tt.command, got, r)
				}
				s.restart()
			}
		})
	}
}
