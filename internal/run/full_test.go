package run

import (
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// TestFull: without a file system of the host that is full, the path that a program names says
// which one it has found full.
func TestFull(t *testing.T) {
	roomy := t.TempDir()
	bind := Hints{Spec: policy.Spec{Backend: policy.BackendLinux, Workspace: policy.Workspace{Source: roomy}, Mounts: []policy.Mount{{Source: roomy, Target: "/home/me/data", Mode: "rw"}}}}
	copied, host, landlock, remote, docker, home := bind, bind, bind, bind, bind, bind
	copied.Spec.Workspace.Mode = policy.ModeCopy
	host.Spec.Backend = policy.BackendHost
	landlock.Spec.Level = policy.LevelLandlock
	remote.Spec.Backend = policy.BackendWrapper
	docker.Spec.Backend = policy.BackendDocker
	home.Spec.Home = roomy
	for _, tt := range []struct {
		h                  Hints
		said, rule, object string
	}{
		{bind, "cat: write error: No space left on device", "tmp", ""},
		{bind, "dd: error writing '/tmp/f': No space left on device", "tmp", "/tmp"},
		{bind, "write /dev/shm/f: no space left on device", "tmp", "/dev/shm"},
		{bind, "dd: error writing '/workspace/f': No space left on device", "disk full", "/workspace"},
		{bind, "sh: 1: cannot create /home/me/data/f: No space left on device", "disk full", "/home/me/data"},
		{bind, "cp: error writing '/home/me/f': No space left on device", "tmp", "/home"},
		{bind, "Error: ENOSPC: no space left on device, write", "tmp", ""},
		{bind, "no room", "", ""},
		{copied, "dd: error writing '/workspace/f': No space left on device", "disk", "/workspace"},
		{copied, "cat: write error: No space left on device", "tmp", ""},
		{host, "cat: write error: No space left on device", "", ""},
		{host, "dd: error writing '" + roomy + "/f': No space left on device", "disk full", roomy},
		{landlock, "dd: error writing '" + roomy + "/f': No space left on device", "disk full", roomy},
		{bind, "dd: error writing '/run/f': No space left on device", "run", "/run"},
		{home, "dd: writing to '/home/agent/f': No space left on device", "disk full", "/home/agent"},
		{home, "cat: write error: No space left on device", "tmp", ""},
		{docker, "dd: error writing '/tmp/f': No space left on device", "", ""},
		{docker, "dd: error writing '/workspace/f': No space left on device", "disk full", "/workspace"},
		{remote, "cat: write error: No space left on device", "", ""},
	} {
		got := tt.h.full([]byte(tt.said))
		if got.Rule != tt.rule || got.Object != tt.object || got.Guess != (tt.rule != "") {
			t.Errorf("%s: %+v", tt.said, got)
		}
	}
}
