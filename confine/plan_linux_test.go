package confine

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
)

func somePlan() *Plan {
	return &Plan{
		Version:    PlanVersion,
		Namespaces: []Namespace{NSUser, NSMount},
		UIDs:       []IDMap{{Inside: 1000, Host: 0x70000001, Count: 1}},
		GIDs:       []IDMap{{Inside: 1000, Host: 0x70000001, Count: 1}},
		Setup: []Step{
			{Do: OpBind, Source: "/a b", Target: "/t\\é", FD: "mount0", Flags: []string{FlagReadOnly, FlagExisting}, Why: "because", Hint: "do this"},
			{Do: OpFile, Target: "/etc/x", Mode: 0o644, Data: []byte{0, 1, 255}, Why: "because"},
			{Do: OpSysctl, Target: "a/b", Source: "0", Optional: true, Why: "because"},
		},
		Spawn:     []Step{{Do: OpSeccomp, Source: FilterAgent, Data: filter(FilterAgent, FilterOptions{}), Flags: []string{FlagAllThreads}, Why: "because"}},
		Files:     []string{"mount0"},
		Env:       map[string]string{"A": "1"},
		Workspace: "/workspace",
		Holds:     policy.Isolation{Backend: "linux", NestedUserns: "sysctl+seccomp"},
	}
}

func TestPlanRoundTrip(t *testing.T) {
	want := somePlan()
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Plan
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, &got); diff != "" {
		t.Error(diff)
	}
}

func TestIsolationOfSkippedSteps(t *testing.T) {
	p := somePlan()
	if got := p.Isolation(nil).NestedUserns; got != "sysctl+seccomp" {
		t.Errorf("nothing skipped: %q", got)
	}
	if got := p.Isolation([]*Error{{Op: string(OpSysctl), Object: "user/max_user_namespaces"}}).NestedUserns; got != "seccomp" {
		t.Errorf("sysctl skipped: %q", got)
	}
}

// Steps that cannot be applied, none of which changes anything before it fails.
func TestApplyErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		step Step
		want Error
	}{
		{"unknown operation", Step{Do: "fly", Target: "/x", Hint: "land"},
			Error{Stage: "spawn", Op: "fly", Object: "/x", Cause: "unknown operation", Hint: "land"}},
		{"no filter", Step{Do: OpSeccomp}, Error{Stage: "spawn", Op: "seccomp", Cause: "not a filter program"}},
		{"unknown capability", Step{Do: OpCaps, Caps: []string{"fly"}}, Error{Stage: "spawn", Op: "caps", Cause: `unknown capability "fly"`}},
		{"unknown scope", Step{Do: OpLandlock, Flags: []string{"sky"}}, Error{Stage: "spawn", Op: "landlock", Cause: `unknown scope "sky"`}},
		{"no such sysctl", Step{Do: OpSysctl, Target: "paddock/none", Source: "0"},
			Error{Stage: "spawn", Op: "sysctl", Object: "paddock/none", Errno: int(unix.ENOENT)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var a Applier
			got := a.Spawn(&Plan{Spawn: []Step{tt.step}})
			if got == nil {
				t.Fatal("applied")
			}
			if diff := cmp.Diff(tt.want, *got); diff != "" {
				t.Error(diff)
			}
			if text := got.Error(); !strings.HasPrefix(text, "cannot apply "+got.Op) {
				t.Errorf("says %q", text)
			}
		})
	}
}

func TestMissingDescriptor(t *testing.T) {
	var a Applier
	got := a.Setup(&Plan{Setup: []Step{{Do: OpBind, Source: "/x", Target: "/y", FD: "mount0"}}})
	want := &Error{Stage: "setup", Op: "bind", Object: "/x", Cause: `the descriptor "mount0" was not handed over`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A source that was resolved is never resolved anew.
func TestResolvedSource(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir+"/real/d", 0o755), os.Symlink("real", dir+"/link"), os.Symlink("real/d", dir+"/last")); err != nil {
		t.Fatal(err)
	}
	for source, errno := range map[string]unix.Errno{
		dir + "/link/d": unix.ELOOP, dir + "/last": unix.ELOOP, dir + "/none": unix.ENOENT, "/proc/self/root": unix.ELOOP,
	} {
		var a Applier
		got := a.Setup(&Plan{Setup: []Step{{Do: OpBind, Source: source, Target: "/y", Flags: []string{FlagResolved}}}})
		want := &Error{Stage: "setup", Op: "bind", Object: source, Errno: int(errno)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Nor is a place inside that exists already, wherever in it a link is.
func TestOpenInside(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(dir+"/real/d", 0o755), os.Symlink("real", dir+"/link"), os.Symlink("d", dir+"/real/last")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for target, says := range map[string]string{
		"/real/d": "", "/link/d": "symbolic link", "/real/last": "symbolic link", "/real/../../x": "no such file", "/none": "no such file",
	} {
		fd, err := openInside(target)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", target, err)
		}
		if err == nil {
			_ = unix.Close(fd)
		}
	}
}

func TestOptionalStep(t *testing.T) {
	a := Applier{}
	optional := Step{Do: OpSysctl, Target: "paddock/none", Source: "0", Optional: true}
	if err := a.Spawn(&Plan{Spawn: []Step{optional, optional}}); err != nil {
		t.Fatal(err)
	}
	if len(a.Skipped) != 2 || a.Skipped[0].Errno != int(unix.ENOENT) {
		t.Errorf("skipped %v", a.Skipped)
	}
}

// An error keeps its errno for errors.Is, also across the wall.
func TestErrorUnwrap(t *testing.T) {
	text, err := json.Marshal(&Error{Stage: "setup", Op: "bind", Object: "/x", Errno: int(unix.EACCES)})
	if err != nil {
		t.Fatal(err)
	}
	var got Error
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(&got, fs.ErrPermission) {
		t.Errorf("%v is not a permission error", &got)
	}
	if want := "cannot apply bind to /x (setup): permission denied"; got.Error() != want {
		t.Errorf("says %q, want %q", got.Error(), want)
	}
	if err := (&Error{Op: "x", Cause: "why"}).Unwrap(); err != nil {
		t.Errorf("unwraps to %v", err)
	}
}

func TestCapNumber(t *testing.T) {
	for name := range capNumbers {
		if n, ok := CapNumber(name); !ok || n > 63 {
			t.Errorf("%s: %d, %v", name, n, ok)
		}
	}
	if _, ok := CapNumber("CAP_SYS_ADMIN"); ok {
		t.Error("names are lower case, without a prefix")
	}
}
