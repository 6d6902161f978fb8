package paddock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An agent of another user, or below a directory of another user's, is not executed:
// what that user's sandboxes could write is not on a list of the caller's.
func TestAgentOfAnother(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files to another user")
	}
	const other = 54321
	for _, tt := range []struct {
		name string
		give []string // to the other user
		says string   // about it, "" where it is used
	}{
		{"root's own", nil, ""},
		{"the file", []string{"bin/agent"}, "bin/agent belongs to uid 54321"},
		{"its directory", []string{"bin"}, "bin belongs to uid 54321"},
		{"one above", []string{"."}, " belongs to uid 54321"},
		{"that of a link to it", []string{"links"}, "links belongs to uid 54321"},
		{"one beside it", []string{"beside"}, ""},
		{"a link to root's", nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, sub := range []string{"bin", "links", "beside"} {
				if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			agent := executable(t, dir+"/bin", "agent")
			if err := os.Symlink("../bin/agent", dir+"/links/agent"); err != nil {
				t.Fatal(err)
			}
			usualIn(t, t.TempDir())
			t.Setenv(StateDirEnv, t.TempDir())
			if _, err := (Options{}).remember(requestIn(t, t.TempDir())); err != nil { // so that there is a list
				t.Fatal(err)
			}
			for _, name := range tt.give {
				if err := os.Chown(filepath.Join(dir, name), other, -1); err != nil {
					t.Fatal(err)
				}
			}
			named := agent
			if strings.Contains(tt.name, "link to") {
				named = dir + "/links/agent"
			}
			t.Setenv(AgentEnv, named)
			_, _, err := Plan(t.Context(), Spec{}, Options{Dir: t.TempDir()})
			if tt.says == "" {
				if err != nil && strings.Contains(err.Error(), "belongs to uid") {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), AgentEnv) {
				t.Errorf("got %v, want %q", err, tt.says)
			}
		})
	}
}
