package command

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

func must(t *testing.T) func(*Rules, error) *Rules {
	return func(r *Rules, err error) *Rules {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

// The texts and the defaults are those of the executor that this follows.
func TestContractTexts(t *testing.T) {
	r := must(t)(New(policy.DefaultCommands()))
	tests := []struct {
		r          *Rules
		text, want string
	}{
		{r, "", "Empty command"},
		{r, " \n ", "Empty command"},
		{must(t)(New(policy.Commands{Allow: []string{"wc", "ls"}})), "curl x", "Command 'curl' is not allowed. Allowed commands: ls, wc"},
		{r, "curl", "Command 'curl' is not allowed. Allowed commands: awk, cat, cut, date, diff, echo, env, file, find, grep, head, ls, node, pwd, " +
			"python, python3, sed, serve, sort, tail, tr, uniq, wc, which"},
		{must(t)(r.With("pip")), "pip install x", "Subcommand 'install' is not allowed for 'pip'. All dependencies are pre-installed."},
		{&Rules{}, "ls", "Command 'ls' is not allowed. Allowed commands: "},
		{&Rules{}, "true", "Command 'true' is not allowed. Allowed commands: "},
		{&Rules{}, "cd x", "Command 'cd' is not allowed. Allowed commands: "},
		{&Rules{}, "x=1", "the list is empty, so that no command is allowed"},
		{r, "ls 'x", "Failed to parse command: reached EOF without closing quote `'`"},
		{r, strings.Repeat("x", MaxText+1), "the command is longer than 64 KiB"},
		{r, strings.Repeat("ls;", 5000), "it has more than 4096 commands"},
		{r, strings.Repeat("{ ", 100) + "ls" + strings.Repeat("; }", 100), "it is nested more than 64 deep"},
	}
	for _, tt := range tests {
		if v := tt.r.Shell(tt.text); v.Allowed || v.Reason != tt.want {
			t.Errorf("%.40q: got %q, want %q", tt.text, v.Reason, tt.want)
		}
	}
	if v := (&Rules{}).Argv([]string{"true"}); v.Rule != RuleAllowlist {
		t.Errorf("an empty list allows true: %+v", v)
	}
	if v := r.Argv(nil); v.Reason != "Empty command" || v.Rule != RuleEmpty {
		t.Errorf("no words: %+v", v)
	}
}

// Programs that start others by options nobody thinks of.
func TestSeldomOptions(t *testing.T) {
	r := must(t)(New(policy.Commands{Allow: []string{"ls", "rg", "fd", "install", "sdiff", "choom", "runcon", "ldd"}}))
	for text, allowed := range map[string]bool{
		"rg --pre ./x y": false, "rg --pre=./x y": false, "rg -n y src": true, "fd -x ls": false, "fd --exec-batch=ls": false, "fd -e go": true,
		"install --strip-program=./x a b": false, "install -m 755 a b": true, "sdiff --diff-program=./x a b": false,
		"choom -n 5 ls": true, "choom -n 5 curl": false, "runcon -t x curl ls": false, "ldd ./x": false,
	} {
		if v := r.Shell(text); v.Allowed != allowed {
			t.Errorf("%q: %+v", text, v)
		}
	}
}

// What builds is an interpreter: it may be given whatever it takes, and that is told.
func TestBuildersAreInterpreters(t *testing.T) {
	r := must(t)(New(policy.Commands{Allow: []string{"go", "cargo", "make", "gmake", "gcc", "gcc-12", "clang++-19", "cc", "rustc", "ls"}}))
	for _, text := range []string{
		"go test ./...", "go generate ./...", "cargo build", "make -j4 test", "make SHELL=./x", "gmake --eval=x", "gcc -wrapper ./x,y a.c", "gcc-12 -fplugin=./x.so a.c",
		"clang++-19 @args", "cc -O2 a.c", "rustc -C linker=./x a.rs",
	} {
		base, _, _ := strings.Cut(text, " ")
		want := base + " is an interpreter: it runs what it is given, and that is not checked: the walls hold"
		if v := r.Shell(text); !v.Allowed || len(v.Notes) != 1 || v.Notes[0] != want {
			t.Errorf("%q: %+v", text, v)
		}
	}
	if v := r.Shell("ls"); len(v.Notes) != 0 {
		t.Errorf("%+v", v)
	}
	if v := r.Shell("SHELL=./x make"); v.Allowed {
		t.Errorf("%+v", v)
	}
}

// awk and sed start what their programs say, as python does: their programs are not read.
func TestScriptsAreInterpreters(t *testing.T) {
	r := must(t)(New(policy.Commands{Allow: []string{"awk", "gawk", "mawk", "sed", "gsed", "python3", "env", "xargs"}}))
	for _, text := range []string{
		`awk 'BEGIN { system("curl x") }'`, `gawk -f prog.awk x`, `mawk "$prog" x`, `sed '1e curl x' f`, `gsed -f x.sed f`, `sed "s/a/$x/" f`, `python3 -c "$x"`,
		`env sed p`, `xargs sed p`,
	} {
		words := strings.Fields(text)
		base := words[0]
		if base == "env" || base == "xargs" {
			base = words[1]
		}
		want := base + " is an interpreter: it runs what it is given, and that is not checked: the walls hold"
		if v := r.Shell(text); !v.Allowed || len(v.Notes) != 1 || v.Notes[0] != want {
			t.Errorf("%q: %+v", text, v)
		}
	}
	for _, text := range []string{`awk '{ print }' f | curl x`, `sed p "$(curl x)"`, `AWKPATH=. gawk -f x`} {
		if v := r.Shell(text); v.Allowed {
			t.Errorf("%q is allowed", text)
		}
	}
}

// What the environment may hold counts where a text assigns something else.
func TestGiven(t *testing.T) {
	r := testRules(t)
	for text, allowed := range map[string]bool{
		"false && x=5; echo $((x))": false, "false && y=5; echo $((y))": true, "x=5; false || echo $((x))": false,
		"bash -c 'false && x=5; echo $((x))'": false, "bash -c 'false && y=5; echo $((y))'": true, `for x in a b; do cat "$x"; done`: true, "ls": true,
	} {
		if v := r.Shell(text); !v.Allowed {
			t.Errorf("%q: %+v", text, v)
		}
		if v := r.Given("x").Shell(text); v.Allowed != allowed {
			t.Errorf("%q with x given: %+v", text, v)
		}
	}
}

func TestPositions(t *testing.T) {
	r := testRules(t)
	tests := []struct {
		text                 string
		line, column, offset int
	}{
		{"ls; curl x", 1, 5, 4},
		{"ls\nwc\n  curl x", 3, 3, 8},
		{"echo é $(curl x)", 1, 10, 10},
		{"ls && pip install x", 1, 11, 10},
		{"ls; sh -c 'ls; curl x'", 1, 11, 10},
		{"echo 'x", 1, 6, 5},
		{"x=a; echo $((x))", 1, 14, 13},
	}
	for _, tt := range tests {
		want := &Position{Line: tt.line, Column: tt.column, Offset: tt.offset}
		if v := r.Shell(tt.text); !reflect.DeepEqual(v.Position, want) {
			t.Errorf("%q: got %+v (%s), want %+v", tt.text, v.Position, v.Reason, want)
		}
	}
}

func TestArgv(t *testing.T) {
	r := testRules(t)
	tests := []struct{ argv, want, position string }{
		{"ls -la", "", ""},
		{"true", "", ""},
		{"find . -exec wc {} +", "", ""},
		{"find . -exec curl {} ;", RuleAllowlist, "3"},
		{"cd src", RuleAllowlist, "0"}, // there is no such program
		{"eval ls", RuleAllowlist, "0"},
		{"env A=1 curl x", RuleAllowlist, "2"},
		{"pip install x", RuleSubcommand, "1"},
		{"timeout 5 pip install x", RuleSubcommand, "3"},
		{"./ls", RulePlace, "0"},
		{"ls; curl", RuleAllowlist, "0"},
		{"sh -c curl", RuleAllowlist, "2"},
		{"sort --compress-program=x", RuleArgument, "1"},
		{"xargs sort", RuleArgument, "0"},
		{"ls \x01", RuleText, "1"},
	}
	for _, tt := range tests {
		v := r.Argv(strings.Fields(tt.argv))
		at := ""
		if v.Position != nil {
			at = string(rune('0' + v.Position.Argument))
		}
		if v.Rule != tt.want || at != tt.position || v.Allowed != (tt.want == "") || v.Dialect != DialectArgv {
			t.Errorf("%q: got %q at %s: %s; want %q at %s", tt.argv, v.Rule, at, v.Reason, tt.want, tt.position)
		}
	}
}

func TestVerdict(t *testing.T) {
	r := testRules(t)
	v := r.Shell("grep x f | sort|head -3 && find . -exec wc {} + ; python3 x.py")
	if got := strings.Join(v.Programs, " "); got != "find grep head python3 sort wc" {
		t.Errorf("programs: %s", got)
	}
	if len(v.Notes) != 1 || v.Notes[0] != "python3 is an interpreter: it runs what it is given, and that is not checked: the walls hold" {
		t.Errorf("notes: %q", v.Notes)
	}
	if v.Dialect != DialectBash || v.Script != "grep x f | sort | head -3 && find . -exec wc {} +\npython3 x.py\n" {
		t.Errorf("%s script: %q", v.Dialect, v.Script)
	}
	if v := r.ShellPOSIX("ls\nmapfile x"); v.Allowed || v.Dialect != DialectPOSIX || v.Command != "mapfile" {
		t.Errorf("%+v", v)
	}
	if v := r.ShellPOSIX(`$'ls'`); v.Allowed {
		t.Errorf("a word that other shells read differently is allowed: %+v", v)
	}
}

func TestRulesChange(t *testing.T) {
	r := must(t)(New(policy.Commands{Allow: []string{"ls", "pip"}, Subcommands: map[string][]string{"pip": {"install"}}}))
	tests := []struct {
		name string
		r    *Rules
		text string
		want bool
	}{
		{"with", must(t)(r.With("git")), "git status", true},
		{"without", must(t)(r.Without("ls")), "ls", false},
		{"block", must(t)(r.Block("pip", "download")), "pip download x", false},
		{"unblock", must(t)(r.Unblock("pip", "install")), "pip install x", true},
		{"the first ones", r, "git status", false},
		{"the first ones", r, "ls", true},
		{"the first ones", r, "pip download x", true},
		{"the first ones", r, "pip install x", false},
	}
	for _, tt := range tests {
		if v := tt.r.Shell(tt.text); v.Allowed != tt.want {
			t.Errorf("%s: %q: %+v", tt.name, tt.text, v)
		}
	}
	want := policy.Commands{Allow: []string{"ls", "pip"}, Subcommands: map[string][]string{"pip": {"install"}}}
	if got := r.List(); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	for _, name := range []string{"", "/bin/ls", "eval", "source", "a b"} {
		if _, err := r.With(name); len(policy.FieldErrors(err)) != 1 {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestRulesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spec.yaml")
	clock := time.Now().Add(-time.Hour)
	write := func(text string) {
		t.Helper()
		clock = clock.Add(time.Second) // a version of its own, however fast this is
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, clock, clock); err != nil {
			t.Fatal(err)
		}
	}
	followed, err := Open(file)
	if err == nil || followed == nil {
		t.Fatalf("a file that is not there: %v, %v", followed, err)
	}
	check := func(step, wantErr, allowed, denied string) {
		t.Helper()
		rules, err := followed.Rules()
		if wantErr == "" && err != nil || wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)) {
			t.Errorf("%s: error %v, want %q", step, err, wantErr)
		}
		if allowed != "" && !rules.Shell(allowed).Allowed || rules.Shell(denied).Allowed {
			t.Errorf("%s: not %q, or %q, is allowed", step, allowed, denied)
		}
	}
	check("no file", "cannot read the rules for commands", "", "ls")
	check("still none", "cannot read the rules for commands", "", "git status")
	write("commands: {allow: [ls]}")
	check("the first", "", "ls", "git status")
	write("commands: {allow: [git]}")
	check("another", "", "git status", "ls")
	write("commands: {allow: [git, a b]}")
	check("a bad name", "spec.yaml:1: cannot use commands.allow[1]", "git status", "ls")
	check("still bad", "spec.yaml:1: cannot use commands.allow[1]", "git status", "ls")
	write("commands: {allow: [git")
	check("broken", "spec.yaml", "git status", "ls")
	write("network: none")
	check("no section", "the file has no such section", "git status", "ls")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("gone", "cannot read the rules for commands", "git status", "ls")
	write("commands: {}")
	check("empty", "", "", "git status")
	write("commands: {allow: [ls]}")
	check("mended", "", "ls", "git status")
}
