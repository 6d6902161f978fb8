package command

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// prison is where allowed texts are run: a directory of programs of which
// most only note that they were started, and a shell that notes every name
// that it finds nowhere.
type prison struct {
	bash, dir, bin, log string
	rules               *Rules
	user                *syscall.Credential // nil: the caller
}

// passing are programs that start others and write nothing.
var passing = []string{"env", "xargs", "find", "nice", "timeout", "sh", "bash"}

// noting are programs that the list has; curl and its kind are for all others.
var noting = []string{"ls", "cat", "head", "tail", "grep", "wc", "sort", "uniq", "cut", "tr", "date", "pip", "git", "true", "false", "test", "echo", "printf", "pwd"}

func newPrison(tb testing.TB) *prison {
	tb.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		tb.Skip("bash is not installed")
	}
	p := &prison{bash: bash, dir: tb.TempDir()}
	p.bin, p.log = filepath.Join(p.dir, "bin"), filepath.Join(p.dir, "log")
	check := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	check(os.Mkdir(p.bin, 0o755))
	check(os.Mkdir(filepath.Join(p.dir, "work"), 0o755))
	for _, name := range passing {
		if path, err := exec.LookPath(name); err == nil {
			check(os.Symlink(path, filepath.Join(p.bin, name)))
		}
	}
	note := "#!/bin/sh\nprintf '%s\\n' \"${0##*/}\" >> " + p.log + "\n"
	for _, name := range append([]string{"curl", "nc", "wget", "x", "f", "rm", "evil", "x.sh"}, noting...) {
		check(os.WriteFile(filepath.Join(p.bin, name), []byte(note), 0o755))
	}
	check(os.WriteFile(p.log, nil, 0o666))
	check(os.Chmod(p.log, 0o666))
	if os.Getuid() == 0 {
		p.user = &syscall.Credential{Uid: 64321, Gid: 64321}
		for dir := p.dir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
			check(os.Chmod(dir, 0o755))
		}
	}
	p.rules, err = New(policy.Commands{Allow: append(slices.Clone(passing), noting...), Subcommands: map[string][]string{"pip": {"install"}}})
	check(err)
	return p
}

// unruly are texts that are not run: they write files, signal processes, name
// programs by their whole path, or would leave the shell that watches.
var unruly = regexp.MustCompile(`kill|-delete|-fpr|-fls|bin/|monitor|set [^;&|\n]*m|command_not_found|-u|ulimit|/proc|/sys|/dev/[^n]`)

// writes finds output that goes anywhere but to /dev/null and descriptors.
func writes(v Verdict) bool {
	for _, w := range v.words {
		if w.kind == pathRedirect && (!w.constant || w.text != "/dev/null" && strings.Trim(w.text, "0123456789-") != "") {
			return true
		}
	}
	return false
}

// started runs the script, and returns the names that were noted.
func (p *prison) started(tb testing.TB, script string) []string {
	tb.Helper()
	if err := os.Truncate(p.log, 0); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Second)
	defer cancel()
	watch := "ulimit -t 1 -f 64 -v 400000\n"
	if p.user != nil {
		watch += "ulimit -u 300\n" // the bound counts all that the user runs
	}
	watch += "command_not_found_handle() { builtin printf '%s\\n' \"$1\" >> " + p.log + "; }\n"
	cmd := exec.CommandContext(ctx, p.bash, "--norc", "--noprofile", "-c", watch+script)
	cmd.Dir = filepath.Join(p.dir, "work")
	cmd.Env = []string{"PATH=" + p.bin, "HOME=" + cmd.Dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.user}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) && ctx.Err() == nil && !errors.Is(err, exec.ErrWaitDelay) {
			tb.Fatal(err)
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what is left of it
	data, err := os.ReadFile(p.log)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Fields(string(bytes.ToValidUTF8(data, []byte("?"))))
}

// FuzzBash runs what is allowed. No program may be started that the verdict
// does not name, and the verdict names none that the list denies.
func FuzzBash(f *testing.F) {
	for _, l := range table(f, "commands.txt") {
		f.Add(l.text)
	}
	p := newPrison(f)
	f.Fuzz(func(t *testing.T, text string) {
		v := p.rules.Shell(text)
		if !v.Allowed || len(v.Notes) > 0 || unruly.MatchString(text) || writes(v) {
			return
		}
		for _, name := range v.Programs {
			if !p.rules.allow[name] && !harmless[name] {
				t.Fatalf("%q is allowed and may start %s, which is not on the list", text, name)
			}
		}
		for _, name := range p.started(t, v.Script) {
			if !slices.Contains(v.Programs, name) {
				t.Fatalf("%q started %s; the verdict names %q", text, name, v.Programs)
			}
		}
	})
}

// TestPrisonNotes makes sure that FuzzBash would see a denied program.
func TestPrisonNotes(t *testing.T) {
	p := newPrison(t)
	for text, want := range map[string]string{
		"ls; curl x": "ls curl", "nowhere": "nowhere", "env nc": "nc", "x='a[$(evil)]'; echo $((x))": "evil", "find . -exec wget {} +": "wget",
		"bash -c 'wc'": "wc", "echo a | xargs curl": "curl",
		"bash <<< 'curl x'": "curl", "sh << E\nnc\nE": "nc", "echo curl | bash": "curl", "bash <(echo wget)": "wget", "bash < <(echo evil)": "evil",
	} {
		if got := strings.Join(p.started(t, text), " "); got != want {
			t.Errorf("%q noted %q, want %q", text, got, want)
		}
	}
}

// shapes are what texts are made of: each # is another text, each @ a word.
var shapes = []string{
	"#; #", "# && #", "# || #", "# | #", "# & wait; #", "(#)", "{ #; }", "! #", "time #", "if #; then #; else #; fi", "while #; do #; break; done",
	"until #; do #; break; done", "for x in @ @; do #; done", "for ((i = 0; i < 2; i++)); do #; done", "case @ in @) # ;; *) # ;; esac", "f() { #; }; #", "f() (#); f @", "f() { #; } | #; f", "# | f() { #; }; f", "f() { #; } & f", "f() { #; } && f", "f() { #; } > /dev/null; f", "time f() { #; }; f", "! f() { #; }; f",
	"function g { #; }\n#", "echo \"$(#)\"", "echo `#`", "x=$(#); #", "cat <(#)", "cat <<E\n$(#)\nE\n", "cat <<'E'\n$(#)\nE\n#", "cat <<< @", "trap '#' EXIT; #",
	"[[ -n $(#) ]]", "[[ @ == @ ]] && #", "[ @ = @ ] || #", "test -n @", "x=@; #", "x=1; #; x=@; #", "x=(@ @); #", "declare x=@; #", "declare -a x=@; #", "x=(@); declare x=@; #", "x[0]=@; local x=@", "trap '#' DEBUG; #", "local x=@", "export x=@; #",
	"echo $((1 + 1)); #", "(( x = 1 )); #", "echo $(( x ))", "echo ${a[x]}", "echo ${x:-$(#)}", "echo ${x:=@}", "echo ${x//@/@}", "echo ${y:x:1}", "[[ $x -gt 1 ]]",
	"env A=@ ls", "env # ", "timeout 1 #", "nice #", "echo @ | xargs #", "echo @ | xargs -I{} # {}", "find . -exec # {} +", "find . -exec # \\;", "bash -c '#'", "sh -c '#'", "bash -c @", "sh -c \"#\"",
	"command #", "coproc { #; }; wait", "select x in @; do #; break; done", "read x <<< @; #", "printf -v x @; #", "mapfile x <<< @; #", "set -- @ @; #", "set @; #",
	"getopts x @; #", "unset x; #", "{ #; } 2> /dev/null", "# > /dev/null", "shopt -s nullglob; #", "#\n#", "eval #", "x=@ #", "\\\n#", "#\\\n", "# # @\n#",
}

// leaves are commands, and words that stand for commands.
var leaves = []string{
	"ls", "ls @", "wc -l @", "f", "f @", "g", "x @", "cat @ @", "pwd", "cd .", ":", "true", "false", "git log", "pip list", "pip install x", "sort -- @", "sort @", "$x", "$x @", "\"$@\"",
	"curl x", "l\\s", "l''s", "'cu'rl", "$'\\x63url'", "env", "xargs", "head -1", "ls\t@", "nc", "echo @", "printf '%s' @", "[ @ ]", "test @ @", "[ -v @ ]", "test @ -gt @", "wait", "read x", "echo ${!x}", "echo ${x@P}",
}

// words are what commands are told.
var words = []string{
	"a", "-n", "\"$x\"", "$x", "${x}", "'a b'", "\"a $x b\"", "*", "{a,b}", "~", "$(echo a)", "\"$(echo curl)\"", "'a[$(evil)]'", "'$(evil)'", "\"\\$(evil)\"", "a\\ b", "$'a\\n'", "''", "\"\"",
	"-x", "curl", "'curl x'", "\"ls; curl\"", "'-v'", "-exec", "';'", "$((1 + 1))", "$((x))", "$#", "1", "x", "'x=1'", "PATH", "\\$x", "a=b", "'`evil`'", "'-v a[$(evil)]'", "'($(evil))'", "'x=($(evil))'", "\"$y\"", "y='($(evil))'",
}

// write makes a text of at most so many levels.
func write(r *rand.Rand, depth int) string {
	from := shapes
	if depth <= 0 || r.IntN(4) == 0 {
		from = leaves
	}
	shape := from[r.IntN(len(from))]
	var b strings.Builder
	for _, c := range shape {
		switch c {
		case '#':
			b.WriteString(write(r, depth-1))
		case '@':
			b.WriteString(words[r.IntN(len(words))])
		default:
			b.WriteRune(c)
		}
	}
	return strings.ReplaceAll(b.String(), "$ ", "$# ")
}

// FuzzGrammar is FuzzBash for texts that are put together by the rules of the
// shell, of which more are allowed than of texts of chance.
func FuzzGrammar(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	p := newPrison(f)
	f.Fuzz(func(t *testing.T, seed uint64) {
		text := write(rand.New(rand.NewPCG(seed, 1)), 3)
		v := p.rules.Shell(text)
		if !v.Allowed || len(v.Notes) > 0 || unruly.MatchString(text) || writes(v) {
			return
		}
		for _, name := range p.started(t, v.Script) {
			if !slices.Contains(v.Programs, name) {
				t.Fatalf("%q started %s; the verdict names %q", text, name, v.Programs)
			}
		}
	})
}
