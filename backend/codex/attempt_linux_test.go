package codex

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// request is one for a new workspace, changed by the functions.
func request(t *testing.T, binary string, change ...func(*policy.Spec)) backend.Request {
	t.Helper()
	s := policy.Spec{Backend: policy.BackendCodex, Codex: &policy.Codex{Binary: binary}}
	s.Workspace.Source = t.TempDir()
	for _, f := range change {
		f(&s)
	}
	s, err := s.Resolve(policy.Base{Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	return backend.Request{Spec: s, Agent: agentPath, StateDir: t.TempDir()}
}

func override(key string, value any) func(*policy.Spec) {
	return func(s *policy.Spec) {
		if s.Codex.ConfigOverrides == nil {
			s.Codex.ConfigOverrides = map[string]any{}
		}
		s.Codex.ConfigOverrides[key] = value
	}
}

func network(word string) func(*policy.Spec) { return func(s *policy.Spec) { s.Network.Mode = word } }
func access(word string) func(*policy.Spec) {
	return func(s *policy.Spec) { s.Workspace.Access = word }
}

// try builds a wall for a request, attempts it and judges it.
func try(t *testing.T, req backend.Request) (*wall, error) {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "paddock-codex-") //nolint:usetesting // not below /tmp, which some of these open
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	h, err := newHome(base, filepath.Join(base, "shared"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWall(t.Context(), req, h)
	if err != nil {
		return nil, err
	}
	r, err := w.attempt(t.Context())
	if err != nil {
		return nil, err
	}
	err = w.judge(r)
	return w, err
}

// The CLI is not believed: whatever it does but confine is an error that says
// what to do.
func TestFakes(t *testing.T) {
	defer func(d time.Duration) { runTimeout = d }(runTimeout)
	// Only what waits for it gets little time; the last two do something before.
	waits := map[string]time.Duration{"hang": 500 * time.Millisecond, "endless": 4 * time.Second, "hang-later": 4 * time.Second}
	for _, tt := range []struct{ manner, err, hint string }{
		{"hang", "ask for its arguments CODEX: it did not end in time", hintWaits},
		{"endless", "ask for its arguments CODEX: it did not end in time: there is no end to what it prints", hintWaits},
		{"garbage", "ask for its arguments CODEX: its help of \"sandbox\" names no platform and no --config", hintVersion},
		{"old", "ask for its arguments CODEX: exit status 2: Usage: codex COMMAND", hintVersion},
		{"login", "run a program behind CODEX: exit status 1: Please log in with 'codex login' first.", hintLogin},
		{"panic", "run a program behind CODEX: exit status 101: error applying Linux sandbox restrictions: Sandbox(LandlockRestrict)", hintPanic},
		{"silent", "run a program behind CODEX: the program inside did not answer", hintVersion},
		{"liar", `run a program behind CODEX: the program inside did not answer: {"nonce":"","write":["","",""]}`, hintVersion},
		{"hang-later", "run a program behind CODEX: it did not end in time", hintWaits},
		{"open", "confine with CODEX: its sandbox does not hold: a file could be written in OUTSIDE", hintNoWall},
		{"banner", "confine with CODEX: its sandbox does not hold: a file could be written in OUTSIDE", hintNoWall},
		{"word", "confine with CODEX: its sandbox does not hold: a file could be written in OUTSIDE", hintNoWall},
		{"word-auto", "confine with CODEX: its sandbox does not hold: a file could be written in OUTSIDE", hintNoWall},
	} {
		t.Run(tt.manner, func(t *testing.T) {
			runTimeout = cmp.Or(waits[tt.manner], time.Minute)
			binary := fake(t, tt.manner)
			_, err := try(t, request(t, binary))
			e, ok := err.(*backend.StartError) //nolint:errorlint // it is not wrapped
			if !ok {
				t.Fatalf("%T: %v", err, err)
			}
			got, _ := strings.CutPrefix(strings.ReplaceAll(e.Error(), binary, "CODEX"), "cannot start the sandbox: codex: ")
			if i := strings.Index(got, "/var/tmp/paddock-codex-"); i >= 0 {
				got = got[:i] + "OUTSIDE"
			}
			if got != tt.err || e.Hint != tt.hint {
				t.Errorf("got  %q\nwant %q\nhint %q", got, tt.err, e.Hint)
			}
		})
	}
}

// What can be told without a CLI, or with any.
func TestRefused(t *testing.T) {
	open := fake(t, "open")
	own := filepath.Dir(agentPath)
	for _, tt := range []struct {
		name   string
		binary string
		change func(*policy.Spec)
		err    string
	}{
		{"missing", "/nowhere/codex", network("none"), "Codex sandbox policy requires the '/nowhere/codex' CLI to be installed and available on PATH."},
		{"missing in PATH", "codex-that-is-not-there", network("none"), "Codex sandbox policy requires the 'codex-that-is-not-there' CLI to be installed and available on PATH."},
		{"own files", open, func(s *policy.Spec) { s.Workspace.Source = own },
			`cannot use workspace.source "` + own + `": commands could change ` + agentPath + ` (Paddock's own program), which the sandbox of codex cannot cover`},
		{"no workspace", open, func(s *policy.Spec) { s.Workspace.Source = "/nowhere" }, `cannot use workspace.source "/nowhere": no such file or directory`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := try(t, request(t, tt.binary, tt.change)); errText(err) != tt.err {
				t.Errorf("got  %q\nwant %q", errText(err), tt.err)
			}
		})
	}
}

// A version is asked once; another version under the same name is asked anew.
func TestDialectOnce(t *testing.T) {
	binary := fake(t, "word-auto")
	h, remove, err := lookHome()
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	h.path = os.Getenv("PATH")
	ask := func(want dialect, asked int) {
		t.Helper()
		id, err := find(binary, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := askDialect(context.Background(), h, id, "linux"); err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(binary), "asked"))
		if got := strings.Count(string(text), "asked"); got != asked {
			t.Errorf("it was asked %d times, want %d", got, asked)
		}
	}
	ask(worded, 1)
	ask(worded, 1)
	if err := os.WriteFile(filepath.Join(filepath.Dir(binary), "manner"), []byte("flat\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(binary, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	ask(flat, 2)
}

// The real CLI, with what specs can say.
func TestReal(t *testing.T) {
	binary := needCLI(t)
	for _, tt := range []struct {
		name   string
		change []func(*policy.Spec)
		lost   string
		err    string
	}{
		{"default", nil, "", ""},
		{"network", []func(*policy.Spec){network("host")}, "", ""},
		{"read-only workspace", []func(*policy.Spec){access("ro")}, "", ""},
		{"override", []func(*policy.Spec){override(keySlashTmp, false)}, "Commands can write /tmp, as codex.config_overrides have it.", ""},
		{"profile", []func(*policy.Spec){override(keyPermissions, ":workspace")}, "Commands can write /tmp, as codex.config_overrides have it.", ""},
		{"read-only, with a workspace to write", []func(*policy.Spec){override(keyMode, modeRead)}, "",
			"behind the sandbox of codex nothing can be written in"},
		{"read-only", []func(*policy.Spec){override(keyMode, modeRead), access("ro")}, "Commands have no directory for temporary files.", ""},
		{"no sandbox", []func(*policy.Spec){override(keyMode, "danger-full-access")}, "", "its sandbox does not hold"},
		{"no sandbox, by a profile", []func(*policy.Spec){override(keyPermissions, ":danger-full-access")}, "", "its sandbox does not hold"},
		{"not a mode", []func(*policy.Spec){override(keyMode, "none")}, "", "unknown variant `none`"},
		{"too much writable", []func(*policy.Spec){override(keyRoots, []string{"/var/tmp"})}, "", "its sandbox does not hold"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := request(t, binary, tt.change...)
			w, err := try(t, req)
			if tt.err == "" && err != nil || !strings.Contains(errText(err), tt.err) || tt.err != "" && err == nil {
				t.Fatalf("got %q, want %q", errText(err), tt.err)
			}
			if err == nil && !strings.Contains(strings.Join(w.lost, " "), tt.lost) {
				t.Errorf("lost: %q, want %q", w.lost, tt.lost)
			}
			if left, _ := os.ReadDir(req.Spec.Workspace.Source); len(left) > 0 {
				t.Errorf("it left %v in the workspace", left)
			}
		})
	}
}

// Neither the caller's settings nor those in the workspace change the wall,
// and nothing is written beside them.
func TestForeignSettings(t *testing.T) {
	binary := needCLI(t)
	const evil = "sandbox_mode = \"danger-full-access\"\n[sandbox_workspace_write]\nwritable_roots = [\"/\"]\nnetwork_access = true\n"
	user := t.TempDir()
	req := request(t, binary)
	trust := "[projects.\"" + req.Spec.Workspace.Source + "\"]\ntrust_level = \"trusted\"\n"
	for dir, text := range map[string]string{filepath.Join(user, ".codex"): evil + trust, filepath.Join(req.Spec.Workspace.Source, ".codex"): evil} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", user)
	t.Setenv("CODEX_HOME", filepath.Join(user, ".codex"))
	if _, err := try(t, req); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(filepath.Join(user, ".codex")); len(list) != 1 {
		t.Errorf("~/.codex holds %v", list)
	}
}
