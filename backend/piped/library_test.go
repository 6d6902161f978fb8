//go:build linux

package piped

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// program returns the path of a file with the headers of a program for a loader, or without one.
func program(t *testing.T, loader string) string {
	t.Helper()
	data := make([]byte, 64+56, 4096)
	copy(data, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint64(data[32:], 64) // where the program headers are
	binary.LittleEndian.PutUint16(data[54:], 56) // how large each is
	if loader != "" {
		binary.LittleEndian.PutUint16(data[56:], 1) // how many there are
		h := data[64:]
		binary.LittleEndian.PutUint32(h, 3) // PT_INTERP
		binary.LittleEndian.PutUint64(h[8:], uint64(len(data)))
		binary.LittleEndian.PutUint64(h[32:], uint64(len(loader)+1))
		data = append(append(data, loader...), 0)
	}
	path := filepath.Join(t.TempDir(), "paddock-agent")
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLacksLibrary(t *testing.T) {
	static, dynamic := program(t, ""), program(t, "/lib64/ld-linux-x86-64.so.2")
	tests := []struct {
		name, agent, said string
		want              bool
	}{
		{"no loader, docker", dynamic, "exec /paddock/agent: no such file or directory", true},
		{"no loader, sh", dynamic, "sh: /tmp/paddock-1/paddock-agent: not found", true},
		{"an older library", dynamic, "/lib/libc.so.6: version `GLIBC_2.34' not found", true},
		{"another failure", dynamic, "Permission denied (publickey)", false},
		{"a static agent", static, "exec /paddock/agent: no such file or directory", false},
		{"no agent", static + "-gone", "not found", false},
	}
	for _, tt := range tests {
		if got := lacksLibrary(tt.agent, tt.said); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
