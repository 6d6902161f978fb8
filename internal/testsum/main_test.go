package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
	tests := []struct {
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
			want: []string{"ok   example.test/m ", "1 packages with tests, 1 without", "race detector off (not asked for)"},
			ok:   true,
		},
		{
			name: "a failure is shown in full and once counted",
			body: onlyTesting + `func TestA(t *testing.T) { t.Run("x", func(t *testing.T) { t.Log("said"); t.Error("wrong") }) }
func TestB(t *testing.T) { t.Log("silence") }`,
			last: "1 passed, 1 failed, 0 skipped",
			want: []string{"FAIL example.test/m ", "m_test.go:4: said", "m_test.go:4: wrong", "failed: example.test/m.TestA/x"},
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
			want: []string{"undefined: undefined", "[build failed]", "failed: example.test/m\n"},
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			skips, err := parseSkips(tt.skips)
			if err != nil {
				t.Fatal(err)
			}
			var out, errOut bytes.Buffer
			c := config{dir: module(t, tt.body), race: "off", skips: skips, args: append([]string{"./..."}, tt.args...), out: &out, err: &errOut}
			if status := c.run(); (status == 0) != tt.ok {
				t.Errorf("exit status %d, want success: %v", status, tt.ok)
			}
			said := out.String()
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
			if t.Failed() {
				t.Logf("said:\n%s", said)
			}
		})
	}
}

// What fails once is flaky; what always fails is a failure.
func TestAgain(t *testing.T) {
	body := "import (\"os\"; \"testing\")\n" + `func TestFlaky(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if _, err := os.Stat("seen"); err != nil { os.WriteFile("seen", nil, 0o600); t.Fatal("first time") }
	})
}
func TestGood(t *testing.T) {}
`
	const broken = "func TestBroken(t *testing.T) { t.Fatal(1) }\n"
	for _, tt := range []struct {
		body, last string
		again, ok  bool
	}{
		{body, "2 passed, 0 failed, 0 skipped", true, true},
		{body, "1 passed, 1 failed, 0 skipped", false, false},
		{body + broken, "2 passed, 1 failed, 0 skipped", true, false},
	} {
		var out, errOut bytes.Buffer
		c := config{dir: module(t, tt.body), race: "off", again: tt.again, args: []string{"./..."}, out: &out, err: &errOut}
		if status := c.run(); (status == 0) != tt.ok || !strings.HasSuffix(out.String(), "\n"+tt.last+"\n") {
			t.Errorf("exit status %d, want success: %v, and %q; said:\n%s", status, tt.ok, tt.last, out.String())
		}
		if told := strings.Contains(out.String(), "flaky: example.test/m.TestFlaky/sub"); told != tt.again {
			t.Errorf("tells of what is flaky: %v, want %v:\n%s", told, tt.again, out.String())
		}
	}
}

func TestUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "skips.txt")
	if err := os.WriteFile(bad, []byte("# comment\n\nTestA needs-root\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"-race", "maybe"}, `cannot use -race "maybe"`},
		{[]string{"-skips", filepath.Join(t.TempDir(), "none")}, "cannot read the list of skips"},
		{[]string{"-skips", bad}, "line 3: want a pattern, one tab and a class"},
		{[]string{"-bogus"}, "not defined"},
	}
	for _, tt := range tests {
		var out, errOut bytes.Buffer
		if status := Main(tt.args, &out, &errOut); status != 2 {
			t.Errorf("%q: exit status %d, want 2", tt.args, status)
		}
		if !strings.Contains(errOut.String(), tt.want) {
			t.Errorf("%q: said %q, want %q", tt.args, errOut.String(), tt.want)
		}
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

// A stream that stops in the middle leaves a package that never ended.
func TestTruncatedStream(t *testing.T) {
	stream := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"half a wo"}
not json
`
	var out bytes.Buffer
	s := newSummary(&out)
	if err := readEvents(strings.NewReader(stream), s); err != nil {
		t.Fatal(err)
	}
	s.endedBadly(os.ErrProcessDone)
	if s.finish(&config{out: &out}, raceMode{on: true}) {
		t.Error("a truncated stream is taken for success")
	}
	for _, want := range []string{"not json\n", "half a wo\n", "failed: p.TestA (did not end)", "race detector on"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("does not say %q:\n%s", want, out.String())
		}
	}
}
