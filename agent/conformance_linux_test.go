package agent_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
)

// The conformance tests speak to the agent as a client of the contract does,
// with a socket and JSON and nothing of this module. CONFORMANCE.md says which
// of them shows what; they are checked against it when all have run.

// call is one request and what must come of it.
type call struct {
	name    string
	request string // JSON
	body    []byte // raw bytes that follow it
	err     string // the whole text of the error; anyError where it is free
	want    string // JSON that the result must contain; more fields are fine
	// check looks at what the request has changed.
	check func(t *testing.T, b *bareAgent, answer map[string]any)
}

const anyError = "*"

// calls makes calls one after the other, each as a test of its own.
func calls(t *testing.T, b *bareAgent, table []call) {
	t.Helper()
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			conform(t)
			c.do(t, b)
		})
	}
}

// each makes calls that show one thing together.
func each(t *testing.T, b *bareAgent, table []call) {
	t.Helper()
	for _, c := range table {
		c.do(t, b)
	}
}

func (c *call) do(t *testing.T, b *bareAgent) {
	t.Helper()
	answer := answerOf(t, b.exchange(t, append([]byte(c.request+"\n"), c.body...)))
	failed := answer["error"]
	switch {
	case c.err == anyError:
		if text, _ := failed.(string); text == "" {
			t.Errorf("%s: got %v, want an error", c.request, answer)
		}
	case c.err != "":
		if failed != c.err {
			t.Errorf("%.300s:\n got %v\nwant %s", c.request, answer, c.err)
		}
	default:
		if _, ok := answer["error"]; ok {
			t.Errorf("%.300s: got the error %v", c.request, failed)
			return
		}
		if c.want != "" {
			contains(t, answer, c.want)
		}
	}
	if c.check != nil {
		c.check(t, b, answer)
	}
}

// contains fails unless everything of want, JSON, is in got.
func contains(t *testing.T, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v", want, err)
	}
	if diff := missing(got, w, "answer"); diff != "" {
		t.Errorf("%s\n got %v\nwant %s", diff, got, want)
	}
}

// missing says what of want is not in got. Objects may have more fields than
// are wanted; lists must have the same length.
func missing(got, want any, at string) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return at + " is no object"
		}
		for key := range w {
			value, ok := g[key]
			if !ok {
				return at + " has no " + key
			}
			if diff := missing(value, w[key], at+"."+key); diff != "" {
				return diff
			}
		}
	case []any:
		g, _ := got.([]any)
		if g == nil || len(g) != len(w) {
			return fmt.Sprintf("%s has %d elements, not %d", at, len(g), len(w))
		}
		for i := range w {
			if diff := missing(g[i], w[i], fmt.Sprintf("%s[%d]", at, i)); diff != "" {
				return diff
			}
		}
	default:
		if !reflect.DeepEqual(got, want) {
			return fmt.Sprintf("%s is %#v, not %#v", at, got, want)
		}
	}
	return ""
}

// types fails unless each field has the kind of JSON value that is said:
// string, int, number, bool, null or list; "null|int" is one of both.
func types(t *testing.T, answer map[string]any, fields map[string]string) {
	t.Helper()
	for name, kinds := range fields {
		value, ok := answer[name]
		got := kindOf(value)
		if fits := strings.Contains("|"+kinds+"|", "|"+got+"|") || got == "int" && kinds == "number"; !ok || !fits {
			t.Errorf("%s is %v, which is %s, not %s", name, value, got, kinds)
		}
	}
}

func kindOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "bool"
	case float64:
		if v == float64(int64(v)) {
			return "int"
		}
		return "number"
	case []any:
		return "list"
	}
	return "object"
}

// quoted is text as JSON.
func quoted(text string) string {
	line, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(line)
}

// put makes a file and its parents.
func put(t *testing.T, text string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// link makes a symbolic link and its parents.
func link(t *testing.T, target string, path ...string) string {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// holds fails unless a file has text.
func holds(t *testing.T, text string, path ...string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(path...))
	if err != nil || string(got) != text {
		t.Errorf("%s holds %.100q, %v, not %.100q", filepath.Join(path...), got, err, text)
	}
}

// absent fails if there is anything under a path.
func absent(t *testing.T, path ...string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(path...)); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", filepath.Join(path...), err)
	}
}

// hasMode fails unless a path has exactly these permission bits.
func hasMode(t *testing.T, mode os.FileMode, path ...string) {
	t.Helper()
	info, err := os.Lstat(filepath.Join(path...))
	if err != nil {
		t.Error(err)
	} else if got := info.Mode() & (os.ModePerm | os.ModeSetuid | os.ModeSetgid | os.ModeSticky); got != mode {
		t.Errorf("%s has the mode %v, not %v", filepath.Join(path...), got, mode)
	}
}

// trickled sends bytes in pieces of a size, then finishes sending, and gives
// all that comes back.
func (b *bareAgent) trickled(t *testing.T, sent []byte, piece int) []byte {
	t.Helper()
	conn := b.dial(t)
	for len(sent) > 0 {
		n := min(piece, len(sent))
		if _, err := conn.Write(sent[:n]); err != nil {
			t.Fatal(err)
		}
		sent = sent[n:]
	}
	_ = conn.CloseWrite()
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// export asks for an archive and gives its header and its bytes.
func (b *bareAgent) export(t *testing.T, path string) (map[string]any, []byte) {
	t.Helper()
	got := b.exchange(t, []byte(`{"action":"export_archive","path":`+quoted(path)+"}\n"))
	line, rest, _ := bytes.Cut(got, []byte("\n"))
	return answerOf(t, append(line, '\n')), rest
}

// exchange sends bytes and gives all that comes back until the agent closes.
// It reads while it sends: an agent may answer, and close, before it has all.
func (b *bareAgent) exchange(t *testing.T, sent []byte) []byte {
	t.Helper()
	conn := b.dial(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = conn.Write(sent)
	}()
	got, err := io.ReadAll(conn)
	if err != nil && (len(got) == 0 || !errors.Is(err, syscall.ECONNRESET)) {
		t.Errorf("cannot read the answer: %v", err)
	}
	conn.Close()
	<-done
	return got
}

// answerOf reads what must be exactly one line of JSON.
func answerOf(t *testing.T, got []byte) map[string]any {
	t.Helper()
	var answer map[string]any
	line, rest, ok := bytes.Cut(got, []byte("\n"))
	if err := json.Unmarshal(line, &answer); err != nil || !ok || len(rest) > 0 {
		t.Fatalf("the answer is not one line of JSON: %.300q, %v", got, err)
	}
	return answer
}

// textOf is a field that must be a string.
func textOf(t *testing.T, answer map[string]any, name string) string {
	t.Helper()
	text, ok := answer[name].(string)
	if !ok {
		t.Fatalf("%s is no string in %v", name, answer)
	}
	return text
}

// numberOf is a field that must be a number.
func numberOf(t *testing.T, answer map[string]any, name string) float64 {
	t.Helper()
	n, ok := answer[name].(float64)
	if !ok {
		t.Fatalf("%s is no number in %v", name, answer)
	}
	return n
}
