package command

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// tell runs a program that reads a script and executes nothing of it, and
// returns what it printed.
func tell(t *testing.T, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 && ctx.Err() == nil {
		return err.Error()
	}
	return string(out)
}

// FuzzSed: a script that is let through has no command that sed itself would
// refuse in its sandbox mode, except those that read and write files.
func FuzzSed(f *testing.F) {
	if out, err := exec.Command("sed", "--sandbox", "-n", "p", "/dev/null").CombinedOutput(); err != nil {
		f.Skipf("sed has no sandbox mode: %s", out)
	}
	for _, script := range []string{
		"p", "1e curl", "s/a/b/e", "s/a/b/ge;p", "s|a|b|;e", "/x/e", "\\,x,e curl", "1~2!e", "$!{1e\n}", ":a;N;$!ba;s/\n/ /g", "b x;e", "a text; e", "a\\\ntext\\\nmore\n1e",
		"i\\", "r x\\\ne curl", "y/abc/def/;e", "s/[/]/x/e", "s/a\\/b/c/", "s/a/\\\n/;e", "s/a/[/;s/b]/c/e", "}e", "{p;p};e", "1,5{s/a/b/;p}", "#n\ne", "# e", "sxaxbxe", "s/a/b/;;e",
		"q5;e", "l 5;e", "t;e", "T x\ne", "/a/,/b/e", "/[/e]/p", "0,/x/e", "+1e", "s/x/y/w f\ne", "c\\\n1e", "1!G;h;$!d", "z;e", "F;e", "e", "=e", "v 4.2;e", "v 4.2\ne", ":a e", "b a e", ":a}s/x/;e/", "$!{N;ba};e",
	} {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		if sedStarts(script) != "" || strings.ContainsAny(script, "rRwW\x00") {
			return
		}
		if out := tell(t, "sed", "--sandbox", "-n", "-e", script, "/dev/null"); strings.Contains(out, "disabled in sandbox mode") {
			t.Fatalf("%q is let through: %s", script, out)
		}
	})
}

// mawkStarts finds system, and pipes of print and getline, in the listing of a
// program.
var mawkStarts = regexp.MustCompile(`\tsystem\n|pushint\t-[34]\n\d+ \.\t(print|printf|getline)\n`)

// FuzzAwk: a program that is let through holds nothing that starts another.
func FuzzAwk(f *testing.F) {
	mawk, err := exec.LookPath("mawk")
	if err != nil {
		f.Skip("mawk is not installed")
	}
	if out, err := exec.Command(mawk, "-W", "dump", `BEGIN { system("x"); "x" | getline; print | "x" }`).CombinedOutput(); err != nil ||
		len(mawkStarts.FindAll(out, -1)) != 3 {
		f.Skipf("mawk lists programs in another way: %s", out)
	}
	for _, program := range []string{
		"{print $1}", `BEGIN{system("x")}`, `{print | "sh"}`, `{"x" | getline}`, `/a|b/`, `$1 ~ /a|b/ {print}`, `{x = 1 / 2; y = 3 / 4; print | "x"}`, `{print "a|b"}`,
		`BEGIN { x = 1./2 | "sh" #/` + "\n}", `{ x = (1) / 2; print | "sh" # / ` + "\n}", `/[/]/ { print | "sh" }`, `{ i++ / 2; print | "x" } # /`, `function f(a) { return /x/ } {print f(1) || 2}`,
		`{ print "\"" | "x" }`, `{ print "a" "b|c" }`, `/"/ { print | "x" } /"/`, `{ a[1] / 2 | "x" } # /`, `# |` + "\n{print}", `{ getline / 2 | "x" } # /`, `NR > 1 || /x/`, `{print /x/ ? "|" : 1}`,
		`/\// {print | "x"}`, `/[^]"]/ {print | "x"} # "`, `BEGIN { print length / 2 | "x" } # /`, `BEGIN { while ((getline l < "f") > 0) n++ }`, "{ print \\\n | \"x\" }", `{ $/x/ | "x" }`, `!/a/ && /b|c/`,
	} {
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program string) {
		if awkStarts(program) != "" || strings.ContainsRune(program, 0) || program == "" {
			return
		}
		if out := tell(t, mawk, "-W", "dump", "--", program); mawkStarts.MatchString(out) {
			t.Fatalf("%q is let through:\n%s", program, out)
		}
	})
}
