package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// Each action belongs to a feature that hello tells, and each such feature
// has its actions.
func TestFeatures(t *testing.T) {
	ofAgent := []string{wire.Hello.Name, wire.Shutdown.Name} // what every agent has, or answers for
	actions := map[string][]string{
		"exec": {"exec"}, "stream": {"exec"}, "tty": {"exec"}, "pass": {"exec"}, "keep_alive": {"hello"}, "redaction": {"exec"},
		"background": {"start_exec", "list_execs", "read_exec", "signal_exec", "kill_exec"},
		"files":      {"list_workspace", "read_workspace_file", "write_workspace_file", "delete_workspace_path", "read_file", "write_file", "stat", "mkdir", "move", "search_files"},
		"archives":   {"extract_archive", "export_archive"},
		"secrets":    {"install_secrets", "set_secrets", "list_secrets", "delete_secrets", "redact_texts"},
		"shells":     {"open_shell", "read_shell", "write_shell", "signal_shell", "resize_shell", "close_shell", "list_shells"},
		"sessions":   {"open_session", "run_session", "interrupt_session", "restart_session", "close_session", "list_sessions"},
		"services":   {"start_service", "status_service", "logs_service", "read_service", "stop_service", "list_services"},
		"connect":    {"connect"},
		"usage":      {"usage"}, "signal": {"signal"}, "kill": {"kill"},
	}
	a := newAgent(&core.Sandbox{Trees: &spawn.Trees{}}, nil, nil, nil, nil)
	hello, err := a.hello(&wire.HelloRequest{})
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, name := range hello.Features {
		if len(actions[name]) == 0 {
			t.Errorf("hello tells of the feature %s, which has no action", name)
		}
		for _, action := range actions[name] {
			have[action] = true
			if a.actions[action] == nil {
				t.Errorf("the agent has no action %s for the feature %s", action, name)
			}
		}
	}
	for _, action := range slices.Sorted(maps.Keys(a.actions)) {
		if !have[action] && !slices.Contains(ofAgent, action) {
			t.Errorf("no feature of %s has the action %s", strings.Join(hello.Features, ", "), action)
		}
	}
}
