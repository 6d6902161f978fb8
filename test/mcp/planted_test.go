//go:build linux

package mcp

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPlanted: what a model plants for the host to run is told on the server's
// standard error when the server ends, by the end of its input or by a signal, and
// it is on record.
func TestPlanted(t *testing.T) {
	requireWalls(t)
	for name, end := range map[string]func(in io.Closer, server *os.Process) error{
		"the end of the input": func(in io.Closer, _ *os.Process) error { return in.Close() },
		"a signal":             func(_ io.Closer, server *os.Process) error { return server.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			s := plain(t)
			cmd := s.command()
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			log := &notes{}
			cmd.Stdout, cmd.Stderr = io.Discard, log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			requests := []string{
				`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"planter","version":"1"}}}`,
				`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				toolCall(2, "exec", `{"command":"mkdir -p .git/hooks .codex; echo x >.git/hooks/pre-commit; echo x >.mcp.json; echo x >.codex/config.toml; echo x >.envrc; touch done"}`),
			}
			if _, err := fmt.Fprintln(in, strings.Join(requests, "\n")); err != nil {
				t.Fatal(err)
			}
			eventually(t, "nothing is planted", func() bool {
				_, err := os.Stat(filepath.Join(s.workspace, "done"))
				return err == nil
			})
			if err := end(in, cmd.Process); err != nil {
				t.Error(err)
			}
			awaitEnd(t, cmd, log)
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			record := s.paddock(t, "audit", "--raw")
			for _, path := range []string{".git/hooks", ".mcp.json", ".codex", ".envrc"} {
				if len(lines) != 1 || !strings.Contains(lines[0], path) || !strings.Contains(lines[0], s.workspace) {
					t.Errorf("the operator is not told of %s: %q", path, lines)
				}
				if !strings.Contains(record, `"kind":"planted"`) || !strings.Contains(record, `"`+path) {
					t.Errorf("%s is not on record: %s", path, record)
				}
			}
		})
	}
}
