package agent_test

import (
	"bufio"
	"os"
	"strings"
	"testing"
)

// The bound of a file that comes in is the one that is written down.
func TestWriteFileBound(t *testing.T) {
	t.Parallel()
	spec, err := os.ReadFile("../wire/WIRE.md")
	if err != nil {
		t.Fatal(err)
	}
	const text = "content_size must be at most 8589934592 bytes"
	if !strings.Contains(string(spec), "`"+text+"`") || !strings.Contains(string(spec), "`content_size` (at most 8589934592, ") {
		t.Error("WIRE.md does not tell the bound")
	}
	b := bare(t)
	for size, want := range map[string]string{
		"8589934593": text,
		"1e18":       text,
		"8589934592": "unexpected EOF while reading content payload", // it is taken, and then cut off
	} {
		conn := b.dial(t)
		if _, err := conn.Write([]byte(`{"action":"write_file","path":"f","content_size":` + size + "}\n")); err != nil {
			t.Fatal(err)
		}
		_ = conn.CloseWrite()
		if line, _ := bufio.NewReader(conn).ReadString('\n'); !strings.Contains(line, `"error":"`+want+`"`) {
			t.Errorf("%s bytes: got %q", size, line)
		}
	}
	absent(t, b.workspace, "f")
}
