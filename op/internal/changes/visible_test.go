package changes

import (
	"bytes"
	"os"
	"testing"

	"github.com/creack/pty"
)

func TestShown(t *testing.T) {
	var out bytes.Buffer
	v := &visible{to: &out}
	for _, part := range []string{"+a\tb\r\n\x1b]0;x\a", "\u009b2J\x7fé", "\xc2", "\x9b1mz"} {
		if n, err := v.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got, want := out.String(), "+a\tb^M\n^[]0;x^G^[[2J^?é\xc2^[[1mz"; got != want {
		t.Errorf("a terminal gets %q, want %q", got, want)
	}
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	defer terminal.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, is := shown(terminal).(*visible); !is {
		t.Error("a terminal gets control characters")
	}
	if shown(file) != file {
		t.Error("a file gets other text than the patch")
	}
}
