package command

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// FuzzShell: no text makes a check panic or hang, what is allowed is written
// out in a form that means the same, and denials are whole.
func FuzzShell(f *testing.F) {
	for _, l := range table(f, "commands.txt") {
		f.Add(l.text)
	}
	r := testRules(f)
	paths := PathsIn(policy.Spec{})
	f.Fuzz(func(t *testing.T, text string) {
		hang := time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("%q hangs", text)) })
		defer hang.Stop()
		for _, judgeArguments := range []func(string) Verdict{r.Shell, r.ShellPOSIX} {
			v := judgeArguments(text)
			switch {
			case !v.Allowed && (v.Rule == "" || v.Reason == "" || v.Script != "" || len(v.Programs) > 0):
				t.Fatalf("%q: the denial is not whole: %+v", text, v)
			case !v.Allowed && v.Position != nil && (v.Position.Offset > len(text) || v.Position.Line < 1 || v.Position.Column < 1):
				t.Fatalf("%q: there is no such place: %+v", text, v.Position)
			case !v.Allowed:
				continue
			}
			again := judgeArguments(v.Script)
			if !again.Allowed || again.Script != v.Script || strings.Join(again.Programs, " ") != strings.Join(v.Programs, " ") {
				t.Fatalf("%q is written out as %q, and then as %q (%s)", text, v.Script, again.Script, again.Reason)
			}
			paths.Check(v)
		}
		r.Argv(strings.Split(text, " "))
	})
}

// TestHostileTextsAreQuick keeps texts of the worst shapes bounded. The bound
// is wide, for slow machines under the race detector: what it catches is time
// that grows with the square, and depth that ends the program.
func TestHostileTextsAreQuick(t *testing.T) {
	r := testRules(t)
	for _, text := range hostile() {
		for try := range 3 { // a busy host may let it wait
			start := time.Now()
			v := r.Shell(text)
			r.ShellPOSIX(text)
			r.Argv([]string{"sh", "-c", text[:MaxText-10]})
			took := time.Since(start)
			if took <= 10*time.Second {
				break
			}
			if try == 2 {
				t.Errorf("%.20q… takes %v (%s)", text, took, v.Reason)
			}
		}
	}
}

// hostile are texts of 64 KiB, most of one piece over and over.
func hostile() []string {
	pieces := []string{
		"(", "( ", "((", "$(", "$((", "`", "\\`", "{ ", "if ", "! ", ";", "; ", "a;", "ls;", "ls&&", "ls|", "a=b ", "\"$(", "$[", "((1+", "[[ ! ", "[[ ( ",
		"case a in a) ", "<(", "- ", "1+", "a[", "${a[", "${a:-", "'", "\"", "<<a\n", "<<a ", "a(){ ", "f() ", "f() { ls; };", "if ls;then :;elif ",
		"[[ a && ", "time ", "coproc ", "while ", "for i in a;do ", "a=(", "{a,", "let ", "$'", "@(", "\\", "\n", "#", "ls\n", "ls ", "ls >a ", "$a", "${a}",
		"x=$y;", "x=$((x+1));", "echo $((x));x=1;", "env ", "timeout 1 ", "find . -exec ", "sed p ", "awk p ", "git ", "x=$x ", "x=$x;echo $((x));",
		"sh -c 'ls';", "\"a\"", "a'b'", "a=$x;(", "trap '' 1;",
	}
	var texts []string
	for _, piece := range pieces {
		for _, before := range []string{"", "echo ", "((", "[[ ", "echo $(("} {
			texts = append(texts, before+strings.Repeat(piece, (MaxText-len(before))/len(piece)+1)[:MaxText-len(before)])
		}
	}
	for _, pair := range []string{"()", "$()", "{}", "``"} {
		for _, n := range []int{60, 1000, 4000} {
			text := strings.Repeat(pair[:len(pair)-1]+" ", n) + "ls" + strings.Repeat(" ;"+pair[len(pair)-1:], n)
			texts = append(texts, (text + strings.Repeat(" ", MaxText))[:MaxText])
		}
	}
	return texts
}

func BenchmarkShell(b *testing.B) {
	r := testRules(b)
	for name, text := range map[string]string{
		"ls":       "ls -la",
		"pipeline": `grep -rn "a;b" . | sort | head -3`,
		"loop":     `for f in *.go; do if grep -q TODO "$f"; then echo "$f: $(wc -l < "$f")"; fi; done`,
		"denied":   "ls; curl example.com",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.Shell(text)
			}
		})
	}
	b.Run("argv", func(b *testing.B) {
		argv := []string{"find", ".", "-name", "*.go", "-exec", "wc", "-l", "{}", "+"}
		for b.Loop() {
			r.Argv(argv)
		}
	})
}

// BenchmarkHostile reports the worst of the texts of 64 KiB.
func BenchmarkHostile(b *testing.B) {
	r := testRules(b)
	for b.Loop() {
		worst, of := time.Duration(0), ""
		for _, text := range hostile() {
			start := time.Now()
			r.Shell(text)
			took := time.Since(start)
			if took > 50*time.Millisecond {
				b.Logf("%q takes %v", text[:20], took)
			}
			if took > worst {
				worst, of = took, text[:20]
			}
		}
		b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
		b.Logf("the worst is %q: %v", of, worst)
	}
}
