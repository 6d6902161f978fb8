package agent

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

// What is tried is told one by one, in the order in which it was asked for.
func TestTryWalls(t *testing.T) {
	dir := t.TempDir()
	there, link := filepath.Join(dir, "there"), filepath.Join(dir, "link")
	if err := os.WriteFile(there, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := l.Addr().String()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := gone.Addr().String()
	_ = gone.Close()
	defer l.Close()
	a := wire.Attempt{Nonce: "n", Write: []string{filepath.Join(dir, "new"), there, link, filepath.Join(dir, "no", "where")},
		Open: []string{there, dir, filepath.Join(dir, "no", "where")}, Dial: []string{open, closed, "nonsense"}}
	line, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if status := TryWalls(strings.NewReader(string(line)+"\n"), &out); status != 0 {
		t.Fatalf("status %d", status)
	}
	var got wire.Attempted
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got.Nonce != "n" {
		t.Fatalf("%q: %v", out.String(), err)
	}
	for i, want := range []string{"", "file exists", "file exists", "no such file"} {
		if !strings.Contains(got.Write[i], want) || want == "" && got.Write[i] != "" {
			t.Errorf("writing %s: %q, want %q", a.Write[i], got.Write[i], want)
		}
	}
	for i, want := range []string{"", "is a directory", "no such file"} {
		if !strings.Contains(got.Open[i], want) || want == "" && got.Open[i] != "" {
			t.Errorf("opening %s: %q, want %q", a.Open[i], got.Open[i], want)
		}
	}
	for i, want := range []string{"", "refused", "missing port"} {
		if !strings.Contains(got.Dial[i], want) || want == "" && got.Dial[i] != "" {
			t.Errorf("calling %s: %q, want %q", a.Dial[i], got.Dial[i], want)
		}
	}
	if text, err := os.ReadFile(a.Write[0]); err != nil || string(text) != "n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestTryWallsBounds(t *testing.T) {
	many := strings.Repeat(`"/x",`, wire.MaxAttempts) + `"/x"`
	for _, line := range []string{"", "{}", "nonsense\n", `{"write":[` + many + "]}\n", `{"dial":[` + many + "]}\n", strings.Repeat(" ", wire.MaxAttemptLine) + "{}\n"} {
		var out bytes.Buffer
		if status := TryWalls(strings.NewReader(line), &out); status == 0 || out.Len() > 0 {
			t.Errorf("%.20q: status %d, %q", line, status, out.String())
		}
	}
}
