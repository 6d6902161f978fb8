package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs are gotestsum and this program, once TestMain has built them.
var programs struct{ gotestsum, summary string }

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "paddock-summary-")
	if err != nil {
		panic(err)
	}
	programs.gotestsum, programs.summary = filepath.Join(dir, "gotestsum"), filepath.Join(dir, "summary")
	for program, pkg := range map[string]string{programs.gotestsum: "gotest.tools/gotestsum", programs.summary: "."} {
		if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, pkg).CombinedOutput(); err != nil {
			panic(string(out))
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// tests runs gotestsum on a module as the Makefile does, without the race detector, and returns what it
// printed and whether it was content.
func tests(t *testing.T, dir, skips string, again bool, args ...string) (said string, ok bool) {
	t.Helper()
	of := t.TempDir()
	list := filepath.Join(of, "skips.txt")
	if err := os.WriteFile(list, []byte(skips), 0o644); err != nil {
		t.Fatal(err)
	}
	flags := []string{"--format=pkgname-and-test-fails", "--format-hide-empty-pkg", "--format-icons=text", "--hide-summary=skipped",
		"--jsonfile=" + filepath.Join(of, "events"), "--post-run-command=" + programs.summary + " -skips=" + list}
	if again {
		flags = append(flags, "--rerun-fails=2", "--rerun-fails-max-failures=5", "--rerun-fails-run-root-test")
	}
	script, err := filepath.Abs("../gotest.sh")
	if err != nil {
		t.Fatal(err)
	}
	quoted := "-count=1"
	for _, arg := range args {
		quoted += " '" + arg + "'"
	}
	var out, errOut bytes.Buffer
	cmd := exec.Command(programs.gotestsum, append(flags, "--raw-command", "--", "sh", script, "", "", "./...", quoted)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errOut
	cmd.Env = append(os.Environ(), "GOWORK=off", "TEST_FLAKY_FILE=")
	err = cmd.Run()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%v; said:\n%s\nstderr:\n%s", err, out.String(), errOut.String())
		}
	})
	return out.String(), err == nil
}

// module makes a module of one package from the body of a test file.
func module(t *testing.T, body string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":    "module example.test/m\n\ngo 1.26\n",
		"m_test.go": "package m\n\n" + body,
		"e/e.go":    "package e\n",
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const onlyTesting = `import "testing"
`

// Each kind of end that go test has, on the real go test.
func TestRealRuns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		body  string
		args  []string
		skips string
		last  string   // the closing line
		want  []string // what else must be said
		ok    bool
	}{
		{
			name: "all pass",
			body: onlyTesting + `func TestA(t *testing.T) { t.Run("x", func(*testing.T) {}); t.Run("y", func(*testing.T) {}) }`,
			last: "2 passed, 0 failed, 0 skipped",
			want: []string{"PASS  . ", "1 packages with tests, 1 without", "race detector off"},
			ok:   true,
		},
		{
			name: "a failure is shown in full and once counted",
			body: onlyTesting + `func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { t.Log("said"); t.Error("wrong") }) }
func TestB(t *testing.T) { t.Log("silence") }`,
			last: "1 passed, 1 failed, 0 skipped",
			want: []string{"FAIL  . ", "m_test.go:4: said", "m_test.go:4: wrong", "failed: example.test/m.TestA/x"},
		},
		{
			name: "names with slashes",
			body: onlyTesting + `func TestA(t *testing.T) { t.Run("a/b", func(*testing.T) {}); t.Run("a/c/", func(t *testing.T) { t.Run("x/y", func(t *testing.T) { t.Fail() }) }) }`,
			last: "1 passed, 1 failed, 0 skipped",
			want: []string{"failed: example.test/m.TestA/a/c//x/y\n"},
		},
		{
			name:  "an allowed skip",
			body:  onlyTesting + `func TestA(t *testing.T) { t.Skip("no such thing here") }` + "\nfunc TestB(t *testing.T) {}",
			skips: "TestA\tneeds-thing\n",
			last:  "1 passed, 0 failed, 1 skipped",
			want:  []string{"skipped, needs-thing: no such thing here\n    example.test/m.TestA\n"},
			ok:    true,
		},
		{
			name: "a report of a package",
			body: "import (\"fmt\"; \"testing\")\n" + `func TestA(t *testing.T) {}
func TestMain(m *testing.M) { m.Run(); fmt.Print("silence\n--- report: numbers\n  one 1\n--- end of report\n--- report: more\n  two 2\n--- end of report\nsilence\n--- report: cut\nsilence\n") }`,
			last: "1 passed, 0 failed, 0 skipped",
			want: []string{"\n\nnumbers\n  one 1\n", "\n\nmore\n  two 2\n"},
			ok:   true,
		},
		{
			name: "a skip that is not allowed",
			body: onlyTesting + `func TestA(t *testing.T) { t.Skip("lazy") }` + "\nfunc TestB(t *testing.T) {}",
			last: "1 passed, 0 failed, 1 skipped",
			want: []string{"skipped, NOT ALLOWED: lazy", "not allowed: 1 skips"},
		},
		{
			name: "no test ran",
			body: onlyTesting + `func TestA(t *testing.T) {}`,
			args: []string{"-run", "^none$"},
			last: "0 passed, 0 failed, 0 skipped",
			want: []string{"no test ran"},
		},
		{
			name: "a build that fails",
			body: onlyTesting + `func TestA(t *testing.T) { undefined() }`,
			last: "0 passed, 1 failed, 0 skipped",
			want: []string{"undefined: undefined", "failed: example.test/m\n"},
		},
		{
			name: "a finding of vet",
			body: "import (\"fmt\"; \"testing\")\n" + `func TestA(t *testing.T) { fmt.Printf("%d\n", "x") }`,
			last: "0 passed, 1 failed, 0 skipped",
			want: []string{"wrong type string", "failed: example.test/m\n"},
		},
		{
			name: "a panic",
			body: onlyTesting + `func TestA(t *testing.T) { panic("boom") }`,
			last: "0 passed, 1 failed, 0 skipped",
			want: []string{"panic: boom", "goroutine ", "failed: example.test/m.TestA"},
		},
		{
			name: "a timeout",
			body: onlyTesting + `func TestA(t *testing.T) { <-t.Context().Done() }`,
			args: []string{"-timeout", "200ms"},
			last: "0 passed, 1 failed, 0 skipped",
			want: []string{"panic: test timed out after 200ms", "failed: example.test/m.TestA"},
		},
		{
			name: "a test that ends the process",
			body: "import (\"os\"; \"testing\")\n" + `func TestA(t *testing.T) { os.Exit(3) }`,
			last: "0 passed, 1 failed, 0 skipped",
			want: []string{"failed: example.test/m.TestA"},
		},
		{
			name: "a TestMain that gives up",
			body: "import (\"fmt\"; \"os\"; \"testing\")\n" + `func TestA(t *testing.T) {}
func TestMain(m *testing.M) { m.Run(); fmt.Println("leaked"); os.Exit(1) }`,
			last: "1 passed, 1 failed, 0 skipped",
			want: []string{"leaked", "failed: example.test/m\n"},
		},
		{
			name: "an argument that go test does not know",
			body: onlyTesting + `func TestA(t *testing.T) {}`,
			args: []string{"-nonsense-flag"},
			last: "0 passed, 1 failed, 0 skipped",
			want: []string{"failed: "},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			said, ok := tests(t, module(t, tt.body), tt.skips, true, tt.args...)
			if ok != tt.ok {
				t.Errorf("success: %v, want %v", ok, tt.ok)
			}
			if !strings.HasSuffix(said, "\n"+tt.last+"\n") {
				t.Errorf("does not end with %q", tt.last)
			}
			for _, want := range tt.want {
				if !strings.Contains(said, want) {
					t.Errorf("does not say %q", want)
				}
			}
			if strings.Contains(said, "silence") {
				t.Error("shows what a good test printed")
			}
		})
	}
}

// What fails once or twice is flaky; what fails three times is a failure.
func TestAgain(t *testing.T) {
	failing := func(times string) string {
		return "import (\"os\"; \"testing\")\n" + `func TestFlaky(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		seen, _ := os.ReadFile("seen")
		os.WriteFile("seen", append(seen, 'x'), 0o600)
		if len(seen) < ` + times + ` { t.Fatal("not yet") }
	})
}
func TestGood(t *testing.T) {}
`
	}
	const broken = "func TestBroken(t *testing.T) { t.Fatal(1) }\n"
	for _, tt := range []struct {
		name, body, last string
		again, told, ok  bool
	}{
		{"once", failing("1"), "2 passed, 0 failed, 0 skipped", true, true, true},
		{"twice", failing("2"), "2 passed, 0 failed, 0 skipped", true, true, true},
		{"three times", failing("3"), "1 passed, 1 failed, 0 skipped", true, false, false},
		{"run once", failing("1"), "1 passed, 1 failed, 0 skipped", false, false, false},
		{"beside a broken one", failing("1") + broken, "2 passed, 1 failed, 0 skipped", true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			said, ok := tests(t, module(t, tt.body), "", tt.again)
			if ok != tt.ok || !strings.HasSuffix(said, "\n"+tt.last+"\n") {
				t.Errorf("success: %v, want %v and %q", ok, tt.ok, tt.last)
			}
			if told := strings.Contains(said, "flaky: example.test/m.TestFlaky/sub"); told != tt.told {
				t.Errorf("tells of what is flaky: %v, want %v", told, tt.told)
			}
		})
	}
}

// A list that cannot be read fails the run.
func TestSkipListErrors(t *testing.T) {
	for text, want := range map[string]string{
		"# comment\n\nTestA needs-root\n": "line 3: want a pattern, one tab and a class",
		"TestA\t\n":                       "line 1: want a pattern",
	} {
		if _, err := parseSkips(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if ok, err := summarize(os.DevNull, filepath.Join(t.TempDir(), "none"), "", 0, new(bytes.Buffer)); ok || err == nil {
		t.Errorf("a list that is not there: %v, %v", ok, err)
	}
}

func TestSkipList(t *testing.T) {
	list, err := parseSkips("TestNet*/v6\tneeds-ipv6\nTestRoot\tneeds-root\nTestUser\tneeds-ordinary-user\n*\tneeds-z\tno z: *\n")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		test, reason string
		uid          int
		class        string
	}{
		{"TestNetwork/a/v6", "", 0, "needs-ipv6"},
		{"TestNetwork/a/v6", "", 1000, "needs-ipv6"},
		{"TestNetwork/v6/a", "", 0, ""},
		{"TestRoot", "", 1000, "needs-root"},
		{"TestRoot", "", 0, ""},
		{"TestUser", "", 0, "needs-ordinary-user"},
		{"TestUser", "", 1000, ""},
		{"TestRooted", "", 1000, ""},
		{"TestAny", "no z: at all", 0, "needs-z"},
		{"TestAny", "there is no z: at all", 0, ""},
		{"TestRoot", "no z: at all", 1000, "needs-root"},
	}
	for _, tt := range tests {
		class, ok := list.class(tt.test, tt.reason, tt.uid)
		if class != tt.class || ok != (tt.class != "") {
			t.Errorf("class(%q, %q, uid %d) = %q, %v, want %q", tt.test, tt.reason, tt.uid, class, ok, tt.class)
		}
	}
}

// A stream that stops in the middle leaves a test that never ended.
func TestTruncatedStream(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	stream := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"half a wo"}
not json
`
	if err := os.WriteFile(file, []byte(stream), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if ok, err := summarize(file, "", "on", 0, &out); ok || err != nil {
		t.Errorf("a truncated stream is taken for success: %v, %v", ok, err)
	}
	for _, want := range []string{"failed: p.TestA (did not end)", "race detector on"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("does not say %q:\n%s", want, out.String())
		}
	}
}
