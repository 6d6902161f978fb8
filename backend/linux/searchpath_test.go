//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
)

// pathInside is PATH of a plan, and what it leaves out, "DIR: WHY", below root.
func pathInside(t *testing.T, root, callers string, change func(*policy.Spec)) (search string, left []string) {
	t.Helper()
	spec := policy.Spec{Workspace: policy.Workspace{Source: root + "/ws"}}
	if change != nil {
		change(&spec)
	}
	spec, err := spec.Resolve(policy.Base{Dir: "/", Home: "/nonexistent"})
	if err != nil {
		t.Fatal(err)
	}
	list, _ := hostpath.ReadWritten(root + "/state")
	req := backend.Request{Spec: spec, StateDir: root + "/state", Path: callers, Seen: hostpath.NewSeen(list)}
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := newPlan(req, identity{kind: mapped, uid: 1234, gid: 1235}, mounts, hierarchy{}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range b.plan.LeftOut {
		left = append(left, strings.ReplaceAll(l.Dir+": "+l.Why, root, "$ROOT"))
	}
	search, _ = strings.CutSuffix(b.plan.Env["PATH"], policy.SearchPath)
	return strings.ReplaceAll(search, root, "$ROOT"), left
}

func TestCallersPath(t *testing.T) {
	root := tempDir(t)
	tree(t, root, map[string]string{
		"ws/bin/tool": "x", "tools/bin/tool": "x", "tools/link": "-> ../ws/bin", "tools/out": "-> /usr/share", "tools/hidden": "-> ../other/bin",
		"open/bin/tool": "x", "other/bin/tool": "x", "state": "/",
	})
	if err := os.Chmod(root+"/state", 0o700); err != nil {
		t.Fatal(err)
	}
	ro := func(paths ...string) func(*policy.Spec) {
		return func(s *policy.Spec) {
			for _, p := range paths {
				s.Mounts = append(s.Mounts, policy.Mount{Source: root + "/" + p})
			}
		}
	}
	for name, tt := range map[string]struct {
		callers string
		change  func(*policy.Spec)
		want    string // before the standard ones
		left    []string
	}{
		"none":                    {"", nil, "", nil},
		"the standard ones alone": {"/usr/bin/:/bin", nil, "/usr/bin:/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin", nil},
		"visible, once, in order": {"/usr/share:/usr/lib:/usr//share", nil, "/usr/share:/usr/lib:", nil},
		"relative and empty":      {":bin:./x:..", nil, "", []string{": it is empty, which is the current directory", "bin: it is not an absolute path", "./x: it is not an absolute path", "..: it is not an absolute path"}},
		"not visible":             {root + "/tools/bin", nil, "", []string{"$ROOT/tools/bin: it is not visible inside"}},
		"mounted":                 {root + "/tools/bin", ro("tools"), "$ROOT/tools/bin:", nil},
		"the kernel's":            {"/proc/self/cwd:/dev/shm:/tmp:/run", nil, "", []string{"/proc/self/cwd: it is not visible inside", "/dev/shm: it is not visible inside", "/tmp: it is not visible inside", "/run: it is not visible inside"}},
		"writable":                {root + "/open/bin", func(s *policy.Spec) { s.Mounts = []policy.Mount{{Source: root + "/open", Mode: "rw"}} }, "", []string{"$ROOT/open/bin: commands can change it: it lies in $ROOT/open, which is writable"}},
		"writable by another way": {root + "/open/bin", func(s *policy.Spec) {
			s.Mounts = []policy.Mount{{Source: root + "/open"}, {Source: root + "/open/bin", Target: "/mnt/x", Mode: "rw"}}
		}, "", []string{"$ROOT/open/bin: commands can change it: it lies in $ROOT/open/bin, which is writable"}},
		"a program is writable": {root + "/open/bin", func(s *policy.Spec) {
			s.Mounts = []policy.Mount{{Source: root + "/open"}, {Source: root + "/open/bin/tool", Mode: "rw"}}
		}, "", []string{"$ROOT/open/bin: commands can change what is in it: $ROOT/open/bin/tool is writable"}},
		"the workspace":            {root + "/ws/bin", nil, "", []string{"$ROOT/ws/bin: it is not visible inside"}},
		"the workspace, mounted":   {root + "/ws/bin", ro("ws"), "", []string{"$ROOT/ws/bin: commands can change it: it lies in $ROOT/ws, which is writable"}},
		"a workspace that is read": {root + "/ws/bin", func(s *policy.Spec) { ro("ws")(s); s.Workspace.Access = "ro" }, "", []string{"$ROOT/ws/bin: it lies in the workspace"}},
		"a link to the workspace":  {root + "/tools/link", ro("tools", "ws"), "", []string{"$ROOT/tools/link: commands can change it: it lies in $ROOT/ws, which is writable"}},
		"a link to what is hidden": {root + "/tools/hidden", ro("tools"), "", []string{"$ROOT/tools/hidden: a link in it leads to what is not visible inside"}},
		"a link to the system":     {root + "/tools/out", ro("tools"), "$ROOT/tools/out:", nil},
		"another at its place": {root + "/tools/bin", func(s *policy.Spec) {
			s.Mounts = []policy.Mount{{Source: root + "/other", Target: root + "/tools"}}
		}, "", []string{"$ROOT/tools/bin: inside there is another directory at its place"}},
		"not there":                 {"/usr/no-such-directory", nil, "", []string{"/usr/no-such-directory: it does not exist"}},
		"a file":                    {"/usr/bin/env", nil, "", []string{"/usr/bin/env: it is not a directory"}},
		"a terminal's commands":     {"/usr/no\x1bsuch", nil, "", []string{"/usr/no\x1bsuch: it does not exist"}},
		"PATH of the spec":          {"/usr/share", func(s *policy.Spec) { s.Env = map[string]string{"PATH": "/x"} }, "/x", nil},
		"rules for commands":        {"/usr/share", func(s *policy.Spec) { s.Commands = &policy.Commands{Allow: []string{"true"}} }, "", nil},
		"rules that allow nothing":  {"/usr/share", func(s *policy.Spec) { s.Commands = &policy.Commands{} }, "", nil},
		"another root file system":  {"/usr/share", func(s *policy.Spec) { s.RootFS = root + "/tools" }, "", nil},
		"names beyond what is true": {"/usr/share/../../" + root + "/tools/bin", ro("tools"), "$ROOT/tools/bin:", nil},
	} {
		t.Run(name, func(t *testing.T) {
			search, left := pathInside(t, root, tt.callers, tt.change)
			if search != tt.want || strings.Join(left, "\n") != strings.Join(tt.left, "\n") {
				t.Errorf("PATH begins with %q, want %q; left out:\n%s\nwant\n%s", search, tt.want, strings.Join(left, "\n"), strings.Join(tt.left, "\n"))
			}
		})
	}
}

// What commands of an earlier sandbox could have written is never looked in.
func TestPathThatWasWritable(t *testing.T) {
	root := tempDir(t)
	tree(t, root, map[string]string{"ws/keep": "x", "tools/bin/tool": "x", "more/bin/tool": "x", "state": "/"})
	if err := os.Chmod(root+"/state", 0o700); err != nil {
		t.Fatal(err)
	}
	callers := root + "/tools/bin:" + root + "/more/bin"
	ro := func(s *policy.Spec) { s.Mounts = []policy.Mount{{Source: root + "/tools"}, {Source: root + "/more"}} }
	if search, left := pathInside(t, root, callers, ro); search != "$ROOT/tools/bin:$ROOT/more/bin:" {
		t.Fatalf("before anything was writable PATH begins with %q; left out: %q", search, left)
	}
	for _, source := range []string{"/tools", "/more/bin/tool"} { // a directory above, a single file
		spec, err := policy.Spec{Workspace: policy.Workspace{Source: root + "/ws"}, Mounts: []policy.Mount{{Source: root + source, Mode: "rw"}}}.Resolve(policy.Base{Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		req := backend.Request{Spec: spec, StateDir: root + "/state"}
		mounts, err := hostpath.Mounts(req, workspaceDir)
		if err == nil {
			_, err = hostpath.Remember(req, mounts, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	search, left := pathInside(t, root, callers, ro)
	want := "$ROOT/tools/bin: commands of a sandbox could have changed what is in it: $ROOT/tools was writable for them (paddock written forget $ROOT/tools shows what is in it, and takes it off the list)\n" +
		"$ROOT/more/bin: commands of a sandbox could have changed what is in it: $ROOT/more/bin/tool was writable for them (paddock written forget $ROOT/more/bin/tool shows what is in it, and takes it off the list)"
	if search != "" || strings.Join(left, "\n") != want {
		t.Errorf("PATH begins with %q; left out:\n%s", search, strings.Join(left, "\n"))
	}
	if err := os.WriteFile(filepath.Join(root, "state", "written"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if search, left := pathInside(t, root, callers, ro); search != "" || !strings.Contains(left[0], "cannot tell what sandboxes could write") {
		t.Errorf("with a damaged list PATH begins with %q; left out: %q", search, left)
	}
}
