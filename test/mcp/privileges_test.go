//go:build linux

package mcp

import (
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/privilege/stores"
)

// TestOwnPrivileges: a model that the local user has started is not the user. It
// can neither use what the user holds nor grant itself more, root's model included.
func TestOwnPrivileges(t *testing.T) {
	s := plain(t)
	s.profile = "full"
	user := stores.Local("")
	if privileged() {
		s.paddock(t, "privilege", "grant", user.Name, "UNSANDBOXED_EXEC")
	}
	c := startStdio(t, s)
	for _, who := range []string{user.Name, localPrincipal(t)} {
		said := c.refused(t, "alter_privileges", map[string]any{"action": "grant", "principal": who, "privileges": []string{"UNSANDBOXED_EXEC"}})
		if !strings.Contains(said, "ALTER_PRIVILEGES") {
			t.Errorf("granting %s: %s", who, said)
		}
	}
	for name, args := range map[string]map[string]any{
		"cgroup_read_file":   {"path": "cgroup.procs"},
		"linux_unshare_exec": {"command": []string{"true"}},
	} {
		if said := c.refused(t, name, args); !strings.Contains(said, "UNSANDBOXED_EXEC") {
			t.Errorf("%s: %s", name, said)
		}
	}
	if said := c.refused(t, "execute", map[string]any{"command": []string{"curl example.com"}}); !strings.Contains(said, "curl") {
		t.Errorf("a command that no rule allows: %s", said)
	}
	for name := range c.tools(t) {
		if name == "alter_privileges" || strings.HasPrefix(name, "linux_") || strings.HasPrefix(name, "cgroup_") {
			t.Errorf("it is offered %s", name)
		}
	}
	if said := c.refused(t, "sandbox_create", map[string]any{"backend": "host"}); !strings.Contains(said, "ceiling") {
		t.Errorf("without walls: %s", said)
	}
}
