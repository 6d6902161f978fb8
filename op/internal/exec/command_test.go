package exec

import (
	"errors"
	"testing"
)

func TestHead(t *testing.T) {
	var b, note writerLog
	h := &head{w: &b, left: 5}
	for _, p := range []string{"abc", "def", "ghi"} {
		if n, err := h.Write([]byte(p)); n != 3 || err != nil {
			t.Fatalf("Write(%q) = %d, %v", p, n, err)
		}
	}
	if err := h.tell(&note, "output"); err != nil {
		t.Fatal(err)
	}
	if b != "abcde" || note != "paddock: the output was cut after 5 of 9 bytes (max-output)\n" {
		t.Errorf("passed on %q, and told %q", b, note)
	}
	broken := errors.New("broken")
	h = &head{w: failing{broken}, left: 5}
	if _, err := h.Write([]byte("a")); !errors.Is(err, broken) {
		t.Errorf("a failing writer became %v", err)
	}
}

type writerLog string

func (w *writerLog) Write(p []byte) (int, error) {
	*w += writerLog(p)
	return len(p), nil
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
