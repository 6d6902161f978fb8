//go:build linux

package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/policy"
)

// tree makes programs ("#!…" or anything), links ("-> text"), directories
// ("/") and plain files ("") below dir.
func tree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if text == "/" {
			testkit.Write(t, at+"/keep", "", 0o644)
			continue
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, at); err != nil {
				t.Fatal(err)
			}
			continue
		}
		testkit.Write(t, at, text, 0o644)
		if text != "" {
			if err := os.Chmod(at, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestExecRules(t *testing.T) {
	root, ws := tempDir(t), tempDir(t)
	tree(t, root, map[string]string{
		"usr/bin/dash":           "shell",
		"bin":                    "-> usr/bin",
		"usr/bin/sh":             "-> dash",
		"usr/bin/env":            "env",
		"usr/bin/tool":           "-> /etc/alternatives/tool",
		"etc/alternatives/tool":  "-> ../../opt/tool/bin/tool",
		"opt/tool/bin/tool":      "tool",
		"usr/bin/script":         "#!/usr/bin/env -S A=1 tool -x\n",
		"usr/bin/by-dash":        "#! /bin/dash -e\n",
		"usr/bin/hidden":         "-> /home/somebody/hidden",
		"home/somebody/hidden":   "hidden",
		"usr/bin/climbs":         "-> ../../../../../../../usr/bin/dash",
		"usr/bin/loop":           "-> loop",
		"usr/bin/dangling":       "-> nowhere",
		"usr/bin/plain":          "",
		"usr/bin/dir":            "/",
		"usr/bin/git":            "git",
		"usr/lib/git-core":       "/",
		"usr/local/bin/first":    "first",
		"usr/bin/first":          "second",
		"usr/bin/in-the-mount":   "-> /mnt/tools/in",
		"usr/bin/out-of-it":      "-> /mnt/tools/../../usr/bin/env",
		"usr/bin/broken-script":  "#!\n",
		"usr/bin/missing-script": "#!/nonexistent/interpreter\n",
	})
	mounted := tempDir(t)
	tree(t, mounted, map[string]string{"in": "program"})
	tests := []struct {
		allow string
		want  string
	}{
		{"", ""},
		{"tool", "/opt/tool/bin/tool /usr/bin/dash"},
		{"script", "/opt/tool/bin/tool /usr/bin/dash /usr/bin/env /usr/bin/script"},
		{"by-dash", "/usr/bin/by-dash /usr/bin/dash"},
		{"hidden loop dangling plain dir missing", "/usr/bin/dash"},
		{"climbs", "/usr/bin/dash"},
		{"git", "/usr/bin/dash /usr/bin/git /usr/lib/git-core"},
		{"first", "/usr/bin/dash /usr/local/bin/first"},
		{"in-the-mount", "/mnt/tools/in /usr/bin/dash"},
		{"out-of-it", "/usr/bin/dash /usr/bin/env"},
		{"broken-script missing-script", "/usr/bin/broken-script /usr/bin/dash /usr/bin/missing-script"},
	}
	b := &builder{plan: &confine.Plan{Namespaces: []confine.Namespace{confine.NSUser}}, spec: policy.Spec{RootFS: root}, mounts: []hostpath.Mount{
		{Field: "workspace.source", Source: ws, Target: workspaceDir, Writable: true, Dir: true},
		{Field: "mounts", Source: mounted, Target: "/mnt/tools", Dir: true},
	}}
	for _, tt := range tests {
		rules, err := b.execRules(&policy.Commands{Allow: strings.Fields(tt.allow)})
		var paths []string
		for _, r := range rules {
			paths = append(paths, r.Path)
			if r.Access != confine.AccessExec {
				t.Errorf("%s: %s of %s", tt.allow, r.Access, r.Path)
			}
		}
		if got := strings.Join(paths, " "); got != tt.want || err != nil {
			t.Errorf("%s: %s, %v\nwant %s", tt.allow, got, err, tt.want)
		}
	}
	for i, source := range []string{mounted, root, root + "/usr/lib", root + "/usr/lib/git-core/keep"} {
		b.mounts[1].Source, b.mounts[1].Writable = source, true
		if i > 0 {
			b.mounts[1].Target = "/mnt/elsewhere"
		}
		_, err := b.execRules(&policy.Commands{Allow: []string{"in-the-mount", "git"}})
		if e := policy.FieldErrors(err); len(e) == 0 || e[0].Field != "mounts" || !strings.Contains(e[0].Reason, "which commands.allow lets them execute") {
			t.Errorf("%s is writable: %v", source, err)
		}
	}
}

func TestLoaderOf(t *testing.T) {
	dir := tempDir(t)
	for text, want := range map[string][2]string{
		"":                              {},
		"#":                             {},
		"#!":                            {},
		"#!\n/bin/sh":                   {},
		"#!/bin/sh":                     {"/bin/sh", ""},
		"#!  /bin/sh -e \nx":            {"/bin/sh", ""},
		"#!/usr/bin/env python3\n":      {"/usr/bin/env", "python3"},
		"#!/usr/bin/env -S -i A=b sh\n": {"/usr/bin/env", "sh"},
		"#!/usr/bin/env\n":              {"/usr/bin/env", ""},
		"\x7fELF":                       {},
		"\x7fELF\x02\x01" + strings.Repeat("\xff", 200): {},
		"\x7fELF\x01\x01" + strings.Repeat("\x00", 200): {},
	} {
		at := filepath.Join(dir, "f")
		testkit.Write(t, at, text, 0o644)
		if interpreter, program := loaderOf(at); interpreter != want[0] || program != want[1] {
			t.Errorf("%q: %q %q", text, interpreter, program)
		}
	}
	// Nothing waits for the writer of a FIFO that took a program's place.
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o755); err != nil {
		t.Fatal(err)
	}
	if interpreter, program := loaderOf(fifo); interpreter != "" || program != "" {
		t.Errorf("a FIFO: %q %q", interpreter, program)
	}
	loader, _ := loaderOf(hostpath.Real("/bin/sh"))
	if loader != "" && !state.Exists(loader) {
		t.Errorf("the loader of sh is %q", loader)
	}
	if at, _ := loaderOf(agentPath); at != "" {
		t.Errorf("a static program has the loader %q", at)
	}
}

// With commands, the programs that they name can be executed and nothing else
// can: not other programs of the system, and nothing in what can be written.
func TestOnlyListedPrograms(t *testing.T) {
	boxtest.RequireWalls(t)
	if confine.LandlockABI() < confine.LandlockFilesABI {
		t.Skipf("the kernel's Landlock ABI is %d, and the right to execute needs %d", confine.LandlockABI(), confine.LandlockFilesABI)
	}
	program := hostpath.Real("/bin/ls")
	prepare := func(s *policy.Spec) {
		text, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		tree(t, s.Workspace.Source, map[string]string{"copied": string(text), "script": "#!/bin/sh\necho script\n"})
	}
	const text = `ls -d / ; cat /dev/null && echo cat; awk 'BEGIN { print "awk" }' < /dev/null; ./copied -d /; ./script; id > /dev/null && echo id
cat < ./copied > "${TMPDIR:-/tmp}/c"; "${TMPDIR:-/tmp}/c" -d /; sh -c 'id > /dev/null && echo id; echo sh'`
	listed := func(s *policy.Spec) { s.Commands = &policy.Commands{Allow: []string{"ls", "cat", "awk"}} }
	landlock := func(s *policy.Spec) {
		s.Level, s.AllowDegraded = policy.LevelLandlock, []string{policy.DegradeIdentity}
	}
	run := func(change ...func(*policy.Spec)) (string, backend.Sandbox) {
		box := launchBox(t, request(t, append(change, prepare)...))
		out, _ := sh(t, box, text)
		var said []string
		for line := range strings.Lines(out) {
			if strings.Contains(line, "Permission denied") {
				line = "denied"
			}
			said = append(said, strings.TrimSpace(line))
		}
		return strings.Join(said, " "), box
	}
	free, _ := run()
	if want := "/ cat awk / script id denied id sh"; free != want {
		t.Errorf("without commands:\n%s\nwant\n%s", free, want)
	}
	for name, change := range map[string][]func(*policy.Spec){"full": {listed}, "landlock": {listed, landlock}} {
		t.Run(name, func(t *testing.T) {
			if name == policy.LevelLandlock {
				requireLandlock(t)
			}
			got, box := run(change...)
			if want := "/ cat awk denied denied denied denied denied sh"; got != want {
				t.Errorf("inside:\n%s\nwant\n%s", got, want)
			}
			if iso := box.Isolation(); !strings.HasPrefix(iso.Landlock, "files execute") {
				t.Errorf("isolation says %q", iso.Landlock)
			}
		})
	}
}

// Not even the loader, which may be executed, starts a program from what
// commands can write.
func TestLoaderOnWhatCanBeWritten(t *testing.T) {
	boxtest.RequireWalls(t)
	loader, _ := loaderOf(hostpath.Real("/bin/ls"))
	if loader == "" {
		t.Skip("ls is not installed here as a dynamic program")
	}
	prepare := func(s *policy.Spec) {
		text, err := os.ReadFile(hostpath.Real("/bin/ls"))
		if err != nil {
			t.Fatal(err)
		}
		tree(t, s.Workspace.Source, map[string]string{"copied": string(text)})
	}
	text := loader + " ./copied -d / 2>/dev/null; cp copied /tmp/c 2>/dev/null || cat copied > /tmp/c; " + loader + " /tmp/c -d / 2>/dev/null"
	if out, _ := sh(t, launchBox(t, request(t, prepare)), text); out != "/\n/" {
		t.Errorf("without commands: %q", out)
	}
	listed := func(s *policy.Spec) { s.Commands = &policy.Commands{Allow: []string{"ls", "cat"}} }
	if out, code := sh(t, launchBox(t, request(t, prepare, listed)), text); out != "" || code == 0 {
		t.Errorf("with commands: %q, status %d", out, code)
	}
}

func TestPlanOfCommands(t *testing.T) {
	req := request(t, func(s *policy.Spec) { s.Commands = &policy.Commands{Allow: []string{"ls"}} })
	p, err := New().Plan(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(p.Setup, p.Spawn...) {
		for _, r := range s.Rules {
			info, err := os.Stat(r.Path)
			if r.Access == confine.AccessAll || r.Access == confine.AccessExec && (err != nil || info.IsDir()) {
				t.Errorf("%s of %s", r.Access, r.Path)
			}
		}
		if s.Do == confine.OpTmpfs && s.Target == policy.TmpPath || s.Target == workspaceDir {
			if !strings.Contains(strings.Join(s.Flags, ","), confine.FlagNoExec) {
				t.Errorf("%s is mounted %v", s.Target, s.Flags)
			}
		}
	}
	if confine.LandlockABI() < confine.LandlockFilesABI && len(p.Holds.Lost) == 0 {
		t.Error("nothing says that the rules are not kept by the kernel")
	}
}
