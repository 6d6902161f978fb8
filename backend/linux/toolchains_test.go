//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// withTools adds one toolchain to a request: HOME/tools, with a single program in HOME/bin.
func withTools(t *testing.T, req backend.Request) backend.Request {
	t.Helper()
	home := hostpath.Real(tempDir(t))
	for _, program := range []string{"tools/bin/tool", "bin/single", "bin/other"} {
		testkit.Write(t, filepath.Join(home, program), "#!/bin/sh\necho "+program+"\n", 0o755)
	}
	shown := []string{home + "/tools", home + "/bin/single"}
	for _, dir := range shown {
		req.Spec.Mounts = append(req.Spec.Mounts, policy.Mount{Source: dir, Target: dir, Mode: "ro"})
	}
	req.Home, req.Path = home, home+"/tools/bin:"+home+"/bin:"+home+"/link/bin:/usr/bin"
	req.Toolchains = backend.Toolchains{
		Shown: []policy.Toolchain{{Name: "tools", Dirs: shown}}, Mounts: len(shown),
		Links:  map[string]string{home + "/bin/linked": home + "/tools/bin/tool"},
		Search: map[string]string{home + "/tools/bin": home + "/tools/bin", home + "/bin": home + "/bin", home + "/link/bin": home + "/tools/bin"},
	}
	return req
}

// What PATH lacks of the toolchains is said, and what it has runs.
func TestToolchains(t *testing.T) {
	box := launchBox(t, withTools(t, request(t)))
	out, _ := sh(t, box, `tool; single; linked; command -v other || echo none; ls ~/tools/bin`)
	if want := "tools/bin/tool\nbin/single\ntools/bin/tool\nnone\ntool"; out != want {
		t.Errorf("inside: %q, want %q", out, want)
	}
	if got := box.Isolation().Toolchains; len(got) != 1 || got[0].Name != "tools" || len(got[0].Dirs) != 2 {
		t.Errorf("toolchains: %+v", got)
	}
}

// At the landlock level only whole directories are searched.
func TestToolchainsAtLandlock(t *testing.T) {
	requireLandlock(t)
	req := request(t, func(s *policy.Spec) {
		s.Level, s.AllowDegraded = policy.LevelLandlock, []string{policy.DegradeIdentity}
	})
	box := launchBox(t, withTools(t, req))
	out, _ := sh(t, box, `tool; command -v single || echo none; command -v other || echo none`)
	if want := "tools/bin/tool\nnone\nnone"; out != want {
		t.Errorf("inside: %q, want %q", out, want)
	}
}

// A toolchain whose file system has no id-mapped mounts is left out, and fails no start.
func TestUnmappableToolchain(t *testing.T) {
	requireRoot(t)
	req := withTools(t, request(t))
	tools := req.Home + "/tools"
	if err := unix.Mount("tools", tools, "ramfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(tools, unix.MNT_DETACH) })
	if err := os.Mkdir(tools+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	box := launchBox(t, req)
	if got := box.Isolation(); len(got.Toolchains) != 0 || got.Identity != idmap {
		t.Errorf("toolchains %+v, owners %s", got.Toolchains, got.Identity)
	}
	if out, _ := sh(t, box, `echo $PATH; id -u`); strings.Contains(out, tools) || !strings.HasSuffix(out, "\n1000") {
		t.Errorf("inside: %q", out)
	}
	left := box.(*sandbox).plan.plan.LeftOut
	if len(left) != 3 || !slices.ContainsFunc(left, func(l confine.LeftOut) bool {
		return l.Dir == tools+"/bin" && l.Why == "its file system cannot be id-mapped"
	}) {
		t.Errorf("left out: %+v", left)
	}
}

// At the landlock level, in place of the full one, toolchains are left out if files in them are
// covered; for root always.
func TestBareToolchains(t *testing.T) {
	req := withTools(t, request(t, func(s *policy.Spec) { s.Mounts = []policy.Mount{{Source: "/usr/share", Target: "/mnt/x"}} }))
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, covered := range []bool{false, true} {
		req.Toolchains.Covered = covered
		got, shown := bareToolchains(req, mounts)
		kept := !covered && os.Geteuid() != 0
		if want := 3; kept && (len(shown) != want+1 || len(got.Spec.Mounts) != want || len(got.Toolchains.Shown) != 1) {
			t.Errorf("kept %d mounts, %+v", len(shown), got.Toolchains)
		}
		if !kept && (len(shown) != 2 || len(got.Spec.Mounts) != 1 || len(got.Toolchains.Shown) != 0 || len(got.Toolchains.LeftOut) != 3) {
			t.Errorf("left %d mounts, %+v", len(shown), got.Toolchains)
		}
	}
}
