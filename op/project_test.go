package op

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op/internal/project"
	"github.com/paddock-dev/paddock/policy"
)

// projectScene is a workspace with a project's file that is trusted, and an environment that
// keeps the notes.
func projectScene(t *testing.T) (env *Env, ws string, notes *[]string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws, notes = filepath.Join(root, "ws"), &[]string{}
	env = &Env{Options: paddock.Options{StateDir: filepath.Join(root, "state"), Dir: ws},
		Project: func(note string) { *notes = append(*notes, note) }}
	err = errors.Join(os.Mkdir(ws, 0o755), os.Mkdir(env.Options.StateDir, 0o700),
		os.WriteFile(filepath.Join(ws, ".paddock.yaml"), []byte("hostname: pen\nenv: {A: b}\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	trustProject(t, env, ws)
	return env, ws, notes
}

func trustProject(t *testing.T, env *Env, ws string) {
	t.Helper()
	file, err := project.Read(env.StateDir(), ws)
	if err != nil {
		t.Fatal(err)
	}
	store, err := project.Open(env.StateDir())
	if err == nil {
		err = store.Trust(t.Context(), file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestProjectFileReaders(t *testing.T) {
	word := func(s string) *string { return &s }
	path := func(s osstring.String) *osstring.String { return &s }
	for name, tt := range map[string]struct {
		change func(env *Env)
		in     SpecInput
		read   bool
	}{
		"the current directory":      {read: true},
		"a workspace that is named":  {in: SpecInput{Workspace: path(".")}, read: true},
		"docker":                     {in: SpecInput{BackendInput: BackendInput{Backend: word("docker")}}, read: true},
		"another workspace":          {in: SpecInput{Workspace: path("..")}},
		"an empty workspace":         {in: SpecInput{Workspace: path("")}},
		"a spec file":                {in: SpecInput{SpecFile: "s.yaml"}},
		"rejected":                   {in: SpecInput{NoProjectFile: true}},
		"no walls":                   {in: SpecInput{BackendInput: BackendInput{Backend: word("host")}}},
		"a wrapper":                  {in: SpecInput{BackendInput: BackendInput{Backend: word("wrapper")}}},
		"a wrapper without the word": {in: SpecInput{BackendInput: BackendInput{Wrapper: word("ssh x")}}},
		"a ceiling":                  {change: func(e *Env) { e.Ceiling = &policy.Ceiling{} }},
		"a door that reads none":     {change: func(e *Env) { e.Project = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			env, _, notes := projectScene(t)
			if tt.change != nil {
				tt.change(env)
			}
			spec, _, err := tt.in.projectSpec(t.Context(), env, policy.Spec{})
			if err != nil || (spec.Hostname == "pen") != tt.read || len(*notes) > 0 {
				t.Errorf("%+v, %v, %q", spec, err, *notes)
			}
		})
	}
}

// A file that is not used is told in one line, and the start goes on without it.
func TestProjectFileUnused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(path string, env *Env) error
		want   string // "": used
	}{
		"as trusted": {func(string, *Env) error { return nil }, ""},
		"replaced by the same": {func(p string, _ *Env) error {
			text, err := os.ReadFile(p)
			return errors.Join(err, os.Remove(p), os.WriteFile(p, text, 0o600))
		}, ""},
		"changed":   {func(p string, _ *Env) error { return os.WriteFile(p, []byte("network: host\n"), 0o644) }, "it has changed since you trusted it; to look at it and decide: paddock trust "},
		"a blank":   {func(p string, _ *Env) error { return os.WriteFile(p, []byte("hostname: pen\nenv: {A: b}\n\n"), 0o644) }, "it has changed since you trusted it; "},
		"a link":    {func(p string, _ *Env) error { return errors.Join(os.Rename(p, p+"2"), os.Symlink(p+"2", p)) }, "it is a symbolic link; --no-project-file"},
		"a FIFO":    {func(p string, _ *Env) error { return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o644)) }, "it is not a regular file; "},
		"too large": {func(p string, _ *Env) error { return os.Truncate(p, 1<<30) }, "it is larger than 16KiB; "},
		"another directory": {func(p string, _ *Env) error {
			ws := filepath.Dir(p)
			text, err := os.ReadFile(p)
			return errors.Join(err, os.Rename(ws, ws+"2"), os.Mkdir(ws, 0o755), os.WriteFile(p, text, 0o644))
		}, "you have trusted it in another directory that was here; to look"},
		"gone": {func(p string, _ *Env) error { return os.Remove(p) }, "it is gone since you trusted it; to end this line: paddock trust --remove /"},
		"gone with its directory": {func(p string, _ *Env) error {
			return errors.Join(os.RemoveAll(filepath.Dir(p)), os.Mkdir(filepath.Dir(p), 0o755))
		}, "it is gone since you trusted it; to end this line: paddock trust --remove /"},
		"no state": {func(p string, e *Env) error {
			err := os.Rename(filepath.Join(e.StateDir(), project.FileName), filepath.Join(filepath.Dir(p), project.FileName))
			e.Options.StateDir = ""
			t.Setenv(paddock.StateDirEnv, "/dev/null/nowhere")
			t.Chdir(filepath.Dir(p))
			return err
		}, `cannot use PADDOCK_STATE_DIR "/dev/null/nowhere": `},
		"another state": {func(_ string, e *Env) error { e.Options.StateDir += "2"; return nil }, "you have not trusted it; to look"},
		"a damaged list": {func(_ string, e *Env) error {
			return os.WriteFile(filepath.Join(e.StateDir(), project.FileName), []byte("{"), 0o600)
		}, "cannot use the list of trusted projects in "},
		"a list that others may write": {func(_ string, e *Env) error { return os.Chmod(filepath.Join(e.StateDir(), project.FileName), 0o666) }, "cannot use the list of trusted projects in "},
	} {
		t.Run(name, func(t *testing.T) {
			env, ws, notes := projectScene(t)
			if err := tt.change(filepath.Join(ws, ".paddock.yaml"), env); err != nil {
				t.Fatal(err)
			}
			spec, file, err := SpecInput{}.projectSpec(t.Context(), env, policy.Spec{Hostname: "default"})
			if used := file != nil; err != nil || used != (tt.want == "") || spec.Hostname != map[bool]string{true: "pen", false: "default"}[used] {
				t.Errorf("%+v, %v", spec, err)
			}
			switch {
			case tt.want == "" && len(*notes) == 0:
			case len(*notes) != 1 || !strings.HasPrefix((*notes)[0], ".paddock.yaml is not used: "+tt.want) || strings.Contains((*notes)[0], "\n"):
				t.Errorf("it says %q", *notes)
			}
		})
	}
}

// A trusted file that is invalid is an error, with the line, and a hint that names the flag.
func TestProjectFileInvalid(t *testing.T) {
	for text, want := range map[string]string{
		"\nbackend: host\n":     `.paddock.yaml:2: cannot use backend: the file of a project must not say it`,
		"level: landlock\n":     `.paddock.yaml:1: cannot use level "landlock": the file of a project must not weaken a wall; here it must be full`,
		"mounts: [{source: a}]": `.paddock.yaml:1: cannot use mounts: the file of a project must not say it`,
		"network: [":            `.paddock.yaml:1: cannot read the spec: `,
		"colour: blue":          `.paddock.yaml:1: cannot use colour: unknown key`,
	} {
		env, ws, notes := projectScene(t)
		if err := os.WriteFile(filepath.Join(ws, ".paddock.yaml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		trustProject(t, env, ws) // as an earlier version could have
		_, err := SpecInput{}.Spec(t.Context(), env)
		if err == nil || !strings.Contains(err.Error(), want) || len(*notes) > 0 {
			t.Errorf("%q: %v, %q", text, err, *notes)
		}
	}
	if hint := FlagHint(policy.FieldErrors(errOf(t, "mounts: [{source: a}]"))[0].Hint); hint != "use --ro or --rw when you start a sandbox" {
		t.Errorf("%q", hint)
	}
	for field, want := range map[string]string{
		"backend: x": "--backend", "rootfs: x": "--rootfs", "allow_degraded: [x]": "--allow-degraded", "workspace: {source: x}": "--workspace",
		"workspace: {unprotected: [x]}": "--unprotect", "level: landlock": "--level", "seccomp: debug": "--seccomp", "docker: {image: x}": "--backend and the flags of that backend, or a file of your own with --spec",
	} {
		if hint := FlagHint(policy.FieldErrors(errOf(t, field))[0].Hint); !strings.HasPrefix(hint, "use "+want) {
			t.Errorf("%s: %q", field, hint)
		}
	}
}

// errOf returns the error of a project's file with this text.
func errOf(t *testing.T, text string) error {
	t.Helper()
	env, ws, _ := projectScene(t)
	if err := os.WriteFile(filepath.Join(ws, ".paddock.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	trustProject(t, env, ws)
	_, err := SpecInput{}.Spec(t.Context(), env)
	return err
}

// Whatever the file is replaced by while it is read, either what was trusted is used, or nothing.
func TestProjectFileChangesWhileItIsRead(t *testing.T) {
	env, ws, _ := projectScene(t)
	path := filepath.Join(ws, ".paddock.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			next := path + ".next"
			_ = os.Remove(next)
			switch i % 4 {
			case 0:
				_ = os.WriteFile(next, text, 0o644)
			case 1:
				_ = os.WriteFile(next, []byte("hostname: evil\n"), 0o644)
			case 2:
				_ = os.Symlink("/etc/hostname", next)
			case 3:
				_ = os.WriteFile(path, []byte("hostname: evil\nenv: {}\n"), 0o644) // in place
				continue
			}
			_ = os.Rename(next, path)
		}
	}()
	used := 0
	for i := 0; i < 2000 || used == 0; i++ {
		spec, file, err := SpecInput{}.projectSpec(t.Context(), env, policy.Spec{})
		if err != nil || file != nil && spec.Hostname != "pen" || file == nil && spec.Hostname != "" {
			t.Fatalf("%+v, %v", spec, err)
		}
		if file != nil {
			used++
		}
	}
	close(stop)
	<-done
}
