package codex

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// What opens /tmp is refused where that opens Paddock's state, and says so before
// anything is tried.
func TestStateBelowTmp(t *testing.T) {
	req := request(t, fake(t, "flat"), override(keySlashTmp, false))
	for _, tt := range []struct{ state, want string }{
		{"/tmp/paddock-state", "commands could then write Paddock's state, /tmp/paddock-state, since it is below /tmp"},
		{"/var/lib/paddock-elsewhere", ""},
	} {
		req.StateDir = tt.state
		_, err := New().Plan(t.Context(), req)
		e, ok := err.(*policy.FieldError) //nolint:errorlint // it is not wrapped
		if tt.want == "" && err != nil || tt.want != "" && (!ok || e.Reason != tt.want || e.Field != policy.FieldPath(overridesField, keySlashTmp) || !strings.Contains(e.Hint, "PADDOCK_STATE_DIR")) {
			t.Errorf("%s: %v", tt.state, err)
		}
	}
}

// The plan shows the command line, and makes nothing in the directory of state.
func TestPlan(t *testing.T) {
	binary := fake(t, "flat")
	req := request(t, binary, func(s *policy.Spec) {
		s.Limits.OpenFiles, s.Limits.Memory = 64, 64*policy.MiB
		s.AllowDegraded = []string{policy.DegradeMemory}
		s.Env = map[string]string{"A": "b"}
	})
	p, err := New().Plan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	tmp := req.StateDir + "/codex/sandbox-ID/tmp"
	want := []string{binary, "sandbox", "-c", `sandbox_mode="workspace-write"`, "-c", "sandbox_workspace_write.exclude_slash_tmp=true",
		"-c", "sandbox_workspace_write.exclude_tmpdir_env_var=true", "-c", "sandbox_workspace_write.network_access=false",
		"-c", `sandbox_workspace_write.writable_roots=["` + tmp + `"]`, "--", "env", "-i", "PATH=" + policy.SearchPath, "HOME=" + tmp, "TMPDIR=" + tmp}
	if !slices.Equal(p.Command, want) {
		t.Errorf("got  %q\nwant %q", p.Command, want)
	}
	if p.Env["A"] != "b" || p.Env["TMPDIR"] != tmp || p.Rlimits.OpenFiles != 64 || p.Workspace != req.Spec.Workspace.Source {
		t.Errorf("%+v", p)
	}
	h := p.Holds
	if h.Level != "wrapper" || h.Network != "none" || h.Verified || !slices.Equal(h.Degraded, []string{"memory"}) ||
		!strings.Contains(h.Limits["memory"], "RLIMIT_DATA=67108864, of each process") {
		t.Errorf("%+v", h)
	}
	if left, err := filepath.Glob(req.StateDir + "/*"); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
