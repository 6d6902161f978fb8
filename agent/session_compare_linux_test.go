package agent_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/wire"
)

// model is the state of a shell, as far as the commands below change it.
type model struct {
	vars   map[string]string
	dir    string
	status int
	lines  []string // what else was set, to be said again
}

func newModel() *model { return &model{vars: map[string]string{}, dir: "/workspace"} }

// traps says that there are some, which the status could not be set beside.
func (m *model) traps() bool { return strings.Contains(strings.Join(m.lines, "\n"), "trap '") }

// script gives a fresh shell the state, and then the command.
func (m *model) script(command string) string {
	var b strings.Builder
	b.WriteString("shopt -s expand_aliases\n")
	for _, name := range slices.Sorted(maps.Keys(m.vars)) {
		fmt.Fprintf(&b, "%s='%s'\n", name, m.vars[name])
	}
	fmt.Fprintf(&b, "cd %s\n%s\n", m.dir, strings.Join(m.lines, "\n"))
	if m.status != 0 && !m.traps() {
		fmt.Fprintf(&b, "__s() { unset -f __s; return %d; }; __s\n", m.status)
	}
	return b.String() + command + "\n"
}

// shape is a kind of command: what it is, and what it does to the state.
type shape struct {
	text func(r *rand.Rand, m *model) string
	do   func(m *model, command string)
	// lax says that a shell which survives its own errors has another status,
	// and goes on where bash -c ends.
	lax  bool
	ends bool
	code int // where bash -c has another status
}

func fixed(text string) func(*rand.Rand, *model) string {
	return func(*rand.Rand, *model) string { return text }
}

func shapes() []shape {
	list := []shape{
		{text: func(r *rand.Rand, _ *model) string { return fmt.Sprintf("v%d='value %d'", r.IntN(4), r.IntN(1000)) },
			do: func(m *model, c string) {
				name, value, _ := strings.Cut(c, "=")
				m.vars[name] = strings.Trim(value, "'")
			}},
		{text: func(r *rand.Rand, _ *model) string {
			return "cd " + []string{"/", "/tmp", "/usr/bin", "/workspace"}[r.IntN(4)]
		},
			do: func(m *model, c string) { m.dir = strings.TrimPrefix(c, "cd ") }},
		{text: func(r *rand.Rand, _ *model) string {
			return fmt.Sprintf("f() { echo f%d \"$@\"; return %d; }", r.IntN(100), r.IntN(5))
		},
			do: func(m *model, c string) { m.lines = append(m.lines, c) }},
		{text: func(r *rand.Rand, _ *model) string {
			return []string{"set -o pipefail", "set +o pipefail", "shopt -s extglob", "umask 027", "umask 022", "alias hi='echo hello'", "set -f", "set +f", "IFS=:", "unset IFS", "trap 'echo E' ERR", "trap - ERR", "trap 'echo D' DEBUG", "trap - DEBUG"}[r.IntN(14)]
		}, do: func(m *model, c string) { m.lines = append(m.lines, c) }},
		{text: func(r *rand.Rand, _ *model) string { return fmt.Sprintf("(exit %d)", r.IntN(200)) }},
		{text: func(r *rand.Rand, _ *model) string {
			return fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", r.IntN(5000))
		}},
		{text: fixed("exit 3"), ends: true}, {text: fixed("exec echo x"), ends: true}, {text: fixed("set -e; echo a; false; echo b"), ends: true}, {text: fixed("kill -9 $$"), ends: true},
		{text: fixed("set -u; echo $none_such; echo z"), lax: true}, {text: fixed("echo ${none?such}; echo z"), lax: true},
		{text: fixed("readonly q=1; q=2; echo z"), lax: true},
		// bash -c ends with the status of what came before.
		{text: fixed("echo 'no end"), code: 2}, {text: fixed("echo \"no end"), code: 2},
	}
	for _, text := range []string{
		"", ":", "false", "true", "pwd", "echo $?", "echo $v0 $v1 \"$v2\" '$v3'", "f a b 2>&1", "hi", "umask", "printf x", "printf 'a\\nb'", "echo out; echo err >&2",
		"if true; then", "for i in 1 2", "{ echo x", "}", "echo $(", "cat <<E\nnot ended", "cat <<E\n$v0 $(echo sub)\nE", "cat <<'E'\n$v0 `x`\nE",
		"no_such_command", "/no/such/file", "/", "cat", "read x; echo \"[$x] $?\"", "while read x; do echo $x; done; echo done", "seq 3 | while read i; do echo \"<$i>\"; done",
		"false | true", "true | false; echo ${PIPESTATUS[@]}", "! true", "false && echo a || echo b", "(cd /; pwd); pwd", "x=$(echo a; echo b >&2; exit 4); echo $x $?",
		"exec 3>&1; echo three >&3; exec 3>&-", "echo a >/tmp/cmp; cat /tmp/cmp; rm /tmp/cmp", "case $v0 in value*) echo match;; *) echo none;; esac",
		"[[ $v1 == v* ]] && echo yes", "(( 3 > 2 )) && echo arith", "echo $((7*6))", "a=(1 2 3); echo ${a[1]} ${#a[@]}", "declare -A m=([k]=v); echo ${m[k]}", "local z=1", "break", "continue",
		"eval 'echo ev'", "eval 'echo \"'", "echo a\necho b\n\n# comment\necho c", "echo é€😀 | wc -c", "printf '\\377\\000x' | od -c", "trap 'echo bye' USR1; kill -USR1 $$; trap - USR1",
		"sleep 0 & wait $!; echo $?", "(sleep 0; echo bg) & wait", "sh -c 'kill -9 $$'", "sh -c 'exit 7'", "test -t 0 || echo no terminal", "ulimit -c", "type cd | head -1", "echo *", "set -- a b c; echo $# $2; set --",
		"set -x; set +x; echo quiet", "command echo cmd", "builtin echo bi", "time -p true 2>/dev/null", "echo {a,b}{1,2}", "echo ~root", "echo ${v0:-default} ${none:-default}", "printf '%s\\n' \"${v0%% *}\" \"${#v1}\"",
		"for ((i=0;i<3;i++)); do printf $i; done", "until false; do echo once; break; done", "diff <(echo a) <(echo b)", "cat <<< here", "echo -n", "echo 'it'\"'\"'s'", "g() { g2() { echo nested; }; g2; }; g", "unset v3; echo [$v3]", "echo $- | tr -dc e", "coproc cat; kill $!; wait 2>/dev/null",
	} {
		list = append(list, shape{text: fixed(text)})
	}
	return list
}

// place is where an error was, as the two tell it.
var place = regexp.MustCompile(`(?m)^(bash|/bin/bash|/proc/self/fd/41|environment)(: /proc/self/fd/41)?(: -c)?(: eval)?(: line \d+)?: `)

// detail is what an error tells of the line that it is about.
var detail = regexp.MustCompile("(?m)^bash: `.*'\n|(here-document) at line \\d+|^\\++ .*\n| from `.*' on line \\d+")

// taken is how long something took, as time -p tells it.
var taken = regexp.MustCompile(`(?m)^(real|user|sys) \d+\.\d\d$`)

func normal(text string) string {
	text = place.ReplaceAllString(text, "bash: ")
	text = taken.ReplaceAllString(text, "$1")
	return detail.ReplaceAllString(text, "$1")
}

// A thousand commands in one session give what bash -c gives from the same state.
func TestSessionIsAsBash(t *testing.T) {
	t.Parallel()
	s := openSession(t, wire.OpenSessionRequest{ShellCommand: []string{"/bin/bash"}, MaxOutputLines: 100000, CommandTimeout: 20})
	s.sh("shopt -s expand_aliases")
	r, m, all := rand.New(rand.NewPCG(1, 2)), newModel(), shapes()
	for i := range testkit.Rounds(1000, 200) {
		sh := all[r.IntN(len(all))]
		if sh.lax && m.traps() {
			continue
		}
		command := sh.text(r, m)
		want := s.run(wire.ExecRequest{Argv: []string{"/bin/bash", "-c", m.script(command)}})
		got := s.sh(command)
		stdout, stderr := normal(printed(got, "stdout")), normal(printed(got, "stderr"))
		if want.ExitCode < 0 && !sh.ends {
			want.ExitCode = 128 - want.ExitCode // bash -c becomes its last command
		}
		if sh.code != 0 {
			want.ExitCode = sh.code
		}
		if sh.lax {
			want.ExitCode, got.ExitCode = min(want.ExitCode, 1), min(got.ExitCode, 1)
		}
		if stdout != normal(want.Stdout) || stderr != normal(want.Stderr) || got.ExitCode != want.ExitCode || got.ShellEnded != sh.ends || got.TimedOut {
			t.Errorf("command %d, %q:\nthe session: %q, %q, %d, ended %v\nbash -c:     %q, %q, %d\nfrom %q",
				i, command, stdout, stderr, got.ExitCode, got.ShellEnded, normal(want.Stdout), normal(want.Stderr), want.ExitCode, m.script(""))
		}
		if sh.do != nil {
			sh.do(m, command)
		}
		if m.status = got.ExitCode; got.ShellEnded || sh.lax {
			s.restart()
			s.sh("shopt -s expand_aliases")
			m = newModel()
		}
	}
}
