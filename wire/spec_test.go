package wire

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// specification returns WIRE.md, which must match the code.
func specification(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("WIRE.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSpecificationNamesEveryField(t *testing.T) {
	spec := specification(t)
	for _, v := range []any{
		HelloRequest{}, HelloResult{}, Bounds{}, ExecRequest{}, SetSecretsRequest{}, DeleteSecretsRequest{}, SecretsResult{}, RedactTextsRequest{}, Limits{}, TTY{},
		ExecStarted{}, ExecResult{}, ReadExecRequest{}, SignalExecRequest{}, BackgroundExec{}, StreamPart{}, ReadExecResult{}, ListExecsResult{}, ConnectRequest{}, ConnectResult{}, SearchRequest{}, SearchResult{}, FoundFile{}, FoundLine{}, RedactRule{}, Denial{}, Control{}, Error{}, Guest{}, GuestPassage{}, GuestRlimits{}, GuestReady{},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !strings.Contains(spec, "`"+name+"`") && !strings.Contains(spec, `"`+name+`":`) {
				t.Errorf("WIRE.md does not name %T's field %s", v, name)
			}
		}
	}
	for code := range knownCodes {
		if !strings.Contains(spec, "| `"+string(code)+"` |") {
			t.Errorf("WIRE.md does not explain the code %s", code)
		}
	}
	for _, bound := range []int{MaxLine, MaxFrame, MaxControl, MaxValues, StdinWindow, ConnectWindow, MaxSecrets, MinSecretBytes, MaxSecretBytes, MaxSecretsBytes, MaxSecretEnv, MaxBackgroundStdin, MaxStreamRead, MaxReadWaitMS, MaxDenials, MaxRedactRules, MaxSearchContext, MaxSearchMatches, MaxSearchLine, MaxSearchBytes, MaxSearchTimeoutMS, MaxGuest, MaxBanner, MaxGuestReady} {
		if !strings.Contains(spec, strconv.Itoa(bound)) {
			t.Errorf("WIRE.md does not give the bound %d", bound)
		}
	}
}

// WIRE.md lists the features that hello reports.
func TestSpecificationFeatures(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `features` .*$").FindString(specification(t))
	_, list, _ := strings.Cut(row, "what it can do")
	var told []string
	for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(list, -1) {
		told = append(told, name[1])
	}
	if !slices.Equal(told, Features()) {
		t.Errorf("WIRE.md names %q, hello tells %q", told, Features())
	}
}

// The frames of the worked example are those that the code writes.
func TestSpecificationExample(t *testing.T) {
	var sent bytes.Buffer
	w := NewFrameWriter(&sent)
	err := errors.Join(w.WriteFrame(StreamStdin, []byte("hi\n")), w.WriteControl(Control{Type: "close_stdin"}))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(specification(t), `"stream":true}\n`)
	example, _, _ = strings.Cut(example, "```")
	var shown []byte
	for _, digits := range regexp.MustCompile(`\b[0-9a-f]{2}\b`).FindAllString(example, -1) {
		b, _ := strconv.ParseUint(digits, 16, 8)
		shown = append(shown, byte(b))
	}
	if !bytes.Equal(shown, sent.Bytes()) {
		t.Fatalf("WIRE.md shows % x\nthe code sends % x", shown, sent.Bytes())
	}
}

func TestSpecificationPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	_, program, _ := strings.Cut(specification(t), "```python\n")
	program, _, _ = strings.Cut(program, "```")
	script := filepath.Join(t.TempDir(), "client.py")
	if err := os.WriteFile(script, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	serve := streamed(StdinWindow, func(f *fakeExec) {
		if f.nextControl().Type != "close_stdin" {
			return
		}
		f.print(StreamStdout, "out\n")
		f.print(StreamStderr, "err\n")
		f.exit(-9)
	})
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			defer conn.Close()
			serve(conn)
		}
	}()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(testContext(t), python, script, path, "echo", "é")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 137 || stdout.String() != "out\n" || stderr.String() != "err\n" {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout.String(), stderr.String())
	}
}
