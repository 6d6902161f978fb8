//go:build linux

package linux

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// exactly runs a program without a shell and gives what it printed.
func exactly(t *testing.T, box backend.Sandbox, argv ...string) string {
	t.Helper()
	client := wire.Client{Dial: box.Dial}
	res, err := client.Exec(t.Context(), wire.ExecRequest{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	return res.Stdout + res.Stderr
}

func requireLandlock(t *testing.T) {
	t.Helper()
	if abi := confine.LandlockABI(); abi < confine.LandlockScopesABI {
		t.Skipf("the kernel's Landlock ABI is %d, and the landlock level needs %d", abi, confine.LandlockScopesABI)
	}
}

// atLandlock starts a sandbox of the landlock level. A workspace of root's
// needs root's leave.
func atLandlock(t *testing.T, change ...func(*policy.Spec)) (backend.Sandbox, backend.Request) {
	t.Helper()
	requireLandlock(t)
	req := request(t, append(change, func(s *policy.Spec) {
		s.Level, s.AllowDegraded = policy.LevelLandlock, []string{policy.DegradeIdentity}
	})...)
	box, err := New().Start(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = box.Stop(context.Background(), 0) })
	return box, req
}

func TestLandlockLevel(t *testing.T) {
	hidden := tempDir(t)
	testkit.Write(t, hidden+"/secret", "secret", 0o644)
	testkit.Write(t, hidden+"/shown/file", "shown", 0o644)
	box, req := atLandlock(t, func(s *policy.Spec) { s.Mounts = []policy.Mount{{Source: hidden + "/shown"}} })
	out, _ := sh(t, box, `pwd; echo x > made && cat made; cat `+hidden+`/shown/file; echo
		cat `+hidden+`/secret; echo x > `+hidden+`/shown/new; ls /; echo x > /tmp/paddock-escaped; echo t > "$TMPDIR/t" && echo h > "$HOME/h" && echo private
		grep -c . /proc/self/status > /dev/null && echo proc; cat /etc/passwd > /dev/null && echo passwd; cat /etc/shadow`)
	ws := hostpath.Real(req.Spec.Workspace.Source)
	want := []string{ws, "x", "shown", "cat: " + hidden + "/secret: Permission denied", "sh: 2: cannot create " + hidden + "/shown/new: Permission denied",
		"ls: cannot open directory '/': Permission denied", "sh: 2: cannot create /tmp/paddock-escaped: Permission denied", "private", "proc", "passwd", "cat: /etc/shadow: Permission denied"}
	for i, line := range strings.Split(out, "\n") {
		if i >= len(want) || strings.TrimPrefix(line, "/bin/") != want[i] {
			t.Fatalf("inside:\n%s\nwant\n%s", out, strings.Join(want, "\n"))
		}
	}
	iso := box.Isolation()
	if iso.Level != policy.LevelLandlock || len(iso.Namespaces) != 0 || !iso.Verified || iso.Landlock != "files abstract_unix_socket signal tcp" || len(iso.Lost) < 5 || iso.Death != "descent" {
		t.Errorf("%+v", iso)
	}
}

// The end of the sandbox is the end of all that it started, daemons included,
// also where the host side goes without a word.
func TestLandlockLevelEnds(t *testing.T) {
	for _, how := range []string{"stop", "lifeline"} {
		box, req := atLandlock(t)
		token := newToken()
		sh(t, box, `for i in 1 2 3; do (setsid sh -c 'setsid sleep 1000 '`+token+` & sleep 1000 '`+token+`' >/dev/null 2>&1 &) ; done`)
		sh(t, box, `mkdir -p $HOME/a/b $HOME/c $TMPDIR/d; echo > $HOME/a/b/f; echo > $HOME/c/f; chmod 555 $HOME/a/b $HOME/a; chmod 0 $HOME/c $HOME $TMPDIR/d`)
		client := wire.Client{Dial: box.Dial}
		if _, err := client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/sh", "-c", "(setsid sleep 1000 " + token + " > /dev/null 2>&1 &)"}, Detach: true}); err != nil {
			t.Fatal(err)
		}
		if how == "lifeline" {
			_ = box.(*sandbox).control.Close()
			<-box.Done()
		}
		death, err := box.Stop(t.Context(), 0)
		if err != nil || !death.Proved {
			t.Errorf("%s: %+v, %v", how, death, err)
		}
		if left := carriers(token); len(left) > 0 {
			t.Errorf("%s: processes %v live", how, left)
		}
		if left, _ := filepath.Glob(filepath.Join(req.StateDir, "sandboxes", "*")); len(left) > 0 {
			t.Errorf("%s: state is left: %v", how, left)
		}
		if left, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+box.ID()+"*")); len(left) > 0 {
			t.Errorf("%s: private directories are left: %v", how, left)
		}
	}
}

func TestLandlockLevelRefuses(t *testing.T) {
	requireLandlock(t)
	inside := request(t, func(s *policy.Spec) {
		s.Level, s.AllowDegraded = policy.LevelLandlock, []string{policy.DegradeIdentity}
	})
	inside.StateDir = inside.Spec.Workspace.Source + "/state"
	program := request(t, func(s *policy.Spec) {
		s.Level, s.AllowDegraded = policy.LevelLandlock, []string{policy.DegradeIdentity}
	})
	program.Spec.Workspace.Source = filepath.Dir(agentPath)
	for says, req := range map[string]backend.Request{"Paddock's own state": inside, "Paddock's own program": program} {
		for _, try := range []func() error{
			func() error { _, err := New().Plan(t.Context(), req); return err },
			func() error { _, err := New().Start(t.Context(), req); return err },
		} {
			if err := try(); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, want %q", err, says)
			}
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	req := request(t, func(s *policy.Spec) { s.Level = policy.LevelLandlock })
	_, err := New().Start(t.Context(), req)
	if e := startError(t, err); !strings.Contains(e.Hint, "`allow_degraded`=identity") {
		t.Errorf("root in a workspace of root's: %+v", e)
	}
}

// As root in a workspace of somebody else's, commands are that somebody.
func TestLandlockLevelAsOwner(t *testing.T) {
	requireRoot(t)
	const uid = 4321
	box, _ := atLandlock(t, func(s *policy.Spec) {
		if err := os.Chown(s.Workspace.Source, uid, uid+1); err != nil {
			t.Fatal(err)
		}
	})
	if out, _ := sh(t, box, "id -u; id -g; id -G; touch made; touch $HOME/x && stat -c %u made; grep CapBnd /proc/self/status"); !strings.HasPrefix(out, "4321\n4322\n4322\n4321\n") {
		t.Errorf("inside: %s", out)
	}
}

// What was written is kept, or refused with the word that allows less.
func TestLimitsThatCannotBeKept(t *testing.T) {
	if findHierarchy().has("memory") {
		t.Skip("this host keeps limits of memory by control groups")
	}
	for degradation, change := range map[string]func(*policy.Spec){
		policy.DegradeMemory: func(s *policy.Spec) { s.Limits.Memory = 64 * policy.MiB },
		policy.DegradeCPUs:   func(s *policy.Spec) { s.Limits.CPUs = 500 },
	} {
		req := request(t, change)
		_, err := New().Start(t.Context(), req)
		if e := startError(t, err); !strings.Contains(e.Hint, "`allow_degraded`="+degradation) {
			t.Errorf("%+v", e)
		}
		req.Spec.AllowDegraded = []string{degradation}
		iso := launchBox(t, req).Isolation()
		if strings.Join(iso.Degraded, "") != degradation || len(iso.Lost) != 1 {
			t.Errorf("%+v", iso)
		}
	}
	// As far as each process's own limit goes, it is kept.
	req := request(t, func(s *policy.Spec) {
		s.Limits.Memory, s.AllowDegraded = 64*policy.MiB, []string{policy.DegradeMemory}
	})
	if out, _ := sh(t, launchBox(t, req), "ulimit -d"); out != "65536" {
		t.Errorf("RLIMIT_DATA is %s KiB", out)
	}
}
