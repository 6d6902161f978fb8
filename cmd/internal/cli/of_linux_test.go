package cli

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What this process was started with stays its own.
func TestKeepOpenFiles(t *testing.T) {
	fd, err := unix.Dup(int(os.Stdin.Fd())) // not closed on exec, as a shell's
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	flags := func() int {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil {
			t.Fatal(err)
		}
		return flags
	}
	if flags()&unix.FD_CLOEXEC != 0 {
		t.Fatal("the control is closed on exec")
	}
	if keepOpenFiles(); flags()&unix.FD_CLOEXEC == 0 {
		t.Error("a program that is started has it too")
	}
}

// What another user's program prints steers no terminal, and characters that come in two pieces stay whole.
func TestEscaped(t *testing.T) {
	const said = "caf\u00e9 \u65e5\u672c\U0001f600\t\x1b[2J\u202e\n\xff\xe6\x97"
	var once string
	for _, piece := range []int{len(said), 1, 2, 3, 5} { // the first is what the others must equal
		var b strings.Builder
		e := &escaped{to: &b}
		for rest := said; rest != ""; {
			n := min(piece, len(rest))
			if _, err := e.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if piece == len(said) {
			once = b.String()
		}
		if b.String() != once || !strings.Contains(b.String(), "caf\u00e9 \u65e5\u672c\U0001f600\t") || strings.ContainsAny(b.String(), "\x1b\u202e") {
			t.Errorf("in pieces of %d bytes: %q, want %q", piece, b.String(), once)
		}
	}
}

// JSON stays JSON, and an answer without an end ends.
func TestEscapedJSON(t *testing.T) {
	const value = "a\x7fb\U000e0001c\u202e"
	said, err := json.Marshal(map[string]string{"path": value})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	e := &escaped{to: &b, json: true}
	if _, err := e.Write(said); err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got["path"] != value || strings.ContainsAny(b.String(), "\x7f\U000e0001\u202e") {
		t.Errorf("%q: %q, %v", b.String(), got, err)
	}
	e = &escaped{to: io.Discard}
	for range ofSaid >> 20 {
		if _, err := e.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Write([]byte("x")); err == nil {
		t.Error("it has no bound")
	}
}
