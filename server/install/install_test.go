package install

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	paddock = Server{Name: "paddock", Command: "/opt/paddock/bin/paddock", Args: []string{"mcp", "--workspace", `/home/a "b" ü\c`}}
	bare    = Server{Name: "paddock", Command: "paddock"}
)

// formats are those of project files.
var formats = map[string]format{"claude-code": formatOf("claude-code"), "vscode": formatOf("vscode"), "codex": formatOf("codex")}

func formatOf(client string) format {
	for _, p := range clients[client].scopes {
		if p.name == Project {
			return p.format("/p")
		}
	}
	panic(client)
}

// edits are files of each format: what is there, and whether it can be edited.
// testdata has NAME.in and, where it can, NAME.out.
func TestEdit(t *testing.T) {
	for kind, f := range formats {
		inputs, err := filepath.Glob(filepath.Join("testdata", kind, "*.in"))
		if err != nil || len(inputs) == 0 {
			t.Fatalf("no input for %s: %v", kind, err)
		}
		for _, input := range inputs {
			t.Run(kind+"/"+strings.TrimSuffix(filepath.Base(input), ".in"), func(t *testing.T) { testEdit(t, f, input) })
		}
	}
}

func testEdit(t *testing.T, f format, input string) {
	old, err := os.ReadFile(input)
	if err != nil {
		t.Fatal(err)
	}
	force := strings.Contains(input, "force")
	got, err := f.edit(old, paddock, force)
	said := ""
	if err != nil {
		got, said = []byte("error: "+err.Error()+"\n"), err.Error()
	}
	golden := strings.TrimSuffix(input, ".in") + ".out"
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if said != "" {
		return
	}
	again, err := f.edit(got, paddock, false)
	if err != nil || string(again) != string(got) {
		t.Errorf("again: %v\n%s", err, cmp.Diff(string(got), string(again)))
	}
	if _, err := f.edit(got, bare, false); !errors.Is(err, ErrOther) {
		t.Errorf("another server of the name: %v", err)
	}
	without, err := f.remove(got, paddock.Name)
	if err != nil {
		t.Fatalf("removed: %v", err)
	}
	if servers, err := f.servers(without); err != nil || len(servers) > 0 && servers[paddock.Name].Command != "" {
		t.Errorf("removed: %v, %v\n%s", servers, err, without)
	}
	if !force && string(got) != string(old) {
		back, err := f.edit(without, paddock, false)
		want, _ := f.servers(got)
		have, _ := f.servers(back)
		if diff := cmp.Diff(want, have); err != nil || diff != "" {
			t.Errorf("removed and added: %v\n%s", err, diff)
		}
	}
	replaced, err := f.edit(got, bare, true)
	if err != nil {
		t.Fatalf("replaced: %v", err)
	}
	back, err := f.edit(replaced, paddock, true)
	if err != nil || string(back) != string(got) && string(got) != string(old) {
		t.Errorf("there and back: %v\n%s", err, cmp.Diff(string(got), string(back)))
	}
}

// TestForeign: what a project's file has beside our command and arguments makes the entry another
// server, which is shown and replaced as a whole. In a user's own file the same is the user's.
func TestForeign(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("CODEX_HOME", "")
	const own = `"command": "paddock", "args": ["mcp"]`
	server := Server{Name: "paddock", Command: "paddock", Args: []string{"mcp"}}
	entries := []struct {
		json, toml string // what the entry has in place of own, and what the table has after it
		shown      string // of what is refused
		user       bool   // it is the same server in a user's file
	}{
		{own, "", "", true}, // the control
		{own + `, "env": {"PATH": "./evil:/bin"}`, "env = {PATH = \"./evil:/bin\"}", "./evil", true},
		{own + `, "cwd": "evil"`, `cwd = "evil"`, `"cwd":"evil"`, true},
		{own + `, "envFile": "evil"`, `envFile = "evil"`, `"envFile":"evil"`, true},
		{own + `, "Env": {}`, `Env = {}`, `"Env"`, true},
		{own + `, "env": null`, "", "", true},
		{own + `, "COMMAND": "./evil/x"`, "", "./evil/x", false},
		{`"command": "./evil/x", "COMMAND": "paddock", "args": ["mcp"]`, "", "./evil/x", false},
		{`"command": "./evil/x", "command": "paddock", "args": ["mcp"]`, "", "./evil/x", false},
		{`"\u0063ommand": "./evil/x", "command": "paddock", "args": ["mcp"]`, "", "./evil/x", false},
		{`"COMMAND": "paddock", "args": ["mcp"]`, "", `"COMMAND"`, false},
		{own + `, "A": "` + strings.Repeat("x", 1000) + `", "env": {"PATH": "./evil"}`, "", "args, command, env in ", true},
		{own + `, "arg\u017f": ["evil"]`, "", "evil", false}, // a long s, which is another case of s
	}
	for _, place := range []struct {
		client string
		scope  Scope
		before string
	}{
		{"claude-code", Project, `{"mcpServers": `}, {"cursor", Project, `{"mcpServers": `}, {"cursor", User, `{"mcpServers": `},
		{"gemini", Project, `{"mcpServers": `}, {"gemini", User, `{"mcpServers": `}, {"vscode", Project, `{"servers": `},
		{"codex", Project, ""}, {"codex", User, ""},
	} {
		for i, e := range entries {
			text := place.before + `{"paddock": {` + e.json + "}}}\n"
			if place.before == "" {
				if text = "[mcp_servers.paddock]\ncommand = \"paddock\"\nargs = [\"mcp\"]\n" + e.toml + "\n"; i > 0 && e.toml == "" {
					continue
				}
			}
			target, err := Find(place.client, place.scope, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(target.Path), 0o700), os.WriteFile(target.Path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			same := e.user && (place.scope == User || i == 0)
			changed, err := target.Server(server, false).Do()
			switch {
			case same && (changed || err != nil):
				t.Errorf("%s %s: %s: %v, %v", place.client, place.scope, text, changed, err)
			case !same && !errors.Is(err, ErrOther), !same && place.scope == Project && !strings.Contains(err.Error(), e.shown):
				t.Errorf("%s %s: %s: %v", place.client, place.scope, text, err)
			}
			if same {
				continue
			}
			if changed, err := target.Server(server, true).Do(); !changed || err != nil {
				t.Errorf("%s %s: forced: %v, %v", place.client, place.scope, changed, err)
			}
			if after, err := os.ReadFile(target.Path); err != nil || strings.Contains(strings.ToLower(string(after)), "env") || strings.Contains(string(after), "evil") {
				t.Errorf("%s %s: forced: %s, %v", place.client, place.scope, after, err)
			}
		}
	}
}

// What a project's file has in the place of a server's entry and is none is shown, and replaced.
func TestNoEntry(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	server := Server{Name: "paddock", Command: "paddock", Args: []string{"mcp"}}
	for _, entry := range []string{"null", "[]", `"paddock"`, "1"} {
		target, err := Find("cursor", Project, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(target.Path), 0o700), os.WriteFile(target.Path, []byte(`{"mcpServers":{"paddock":`+entry+`}}`), 0o600)); err != nil {
			t.Fatal(err)
		}
		if changed, err := target.Server(server, false).Do(); changed || !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), entry) {
			t.Errorf("%s: %v, %v", entry, changed, err)
		}
		if changed, err := target.Server(server, true).Do(); !changed || err != nil {
			t.Errorf("%s, forced: %v, %v", entry, changed, err)
		}
	}
}

// TestVariants: names of case alone beside those on the way to a server are refused, but for paths.
func TestVariants(t *testing.T) {
	claude := clients["claude-code"].scopes[0].format("/p")
	for text, f := range map[string]format{
		`{"mcpservers": {"paddock": {}}, "mcpServers": {}}`: formats["claude-code"],
		`{"mcpServers": {"Paddock": {}}}`:                   formats["claude-code"],
		`{"Servers": {}}`:                                   formats["vscode"],
		`{"Projects": {}, "projects": {}}`:                  claude,
		"[MCP_servers.paddock]\ncommand = \"x\"":            formats["codex"],
		"[mcp_servers.PADDOCK]\ncommand = \"x\"":            formats["codex"],
	} {
		if got, err := f.edit([]byte(text), paddock, true); err == nil || !strings.Contains(err.Error(), "in case alone") {
			t.Errorf("%s: %v\n%s", text, err, got)
		}
	}
	if _, err := claude.edit([]byte(`{"projects": {"/P": {}, "/p": {}}}`), paddock, false); err != nil {
		t.Errorf("the control, two paths: %v", err)
	}
}

func TestFind(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("CODEX_HOME", "")
	t.Setenv("CLAUDE_CONFIG_DIR", "")
	for _, tt := range []struct {
		client string
		scope  Scope
		path   string
		err    string
	}{
		{"claude-code", "", home + "/.claude.json", ""},
		{"claude-code", Project, "/p/.mcp.json", ""},
		{"claude-code", User, "", ""},
		{"cursor", "", "/p/.cursor/mcp.json", ""},
		{"cursor", User, home + "/.cursor/mcp.json", ""},
		{"cursor", Local, "", "unknown scope for cursor"},
		{"gemini", "", home + "/.gemini/settings.json", ""},
		{"gemini", Project, "/p/.gemini/settings.json", ""},
		{"gemini", User, home + "/.gemini/settings.json", ""},
		{"vscode", "", "/p/.vscode/mcp.json", ""},
		{"vscode", User, "", ""},
		{"codex", "", home + "/.codex/config.toml", ""},
		{"codex", Project, "/p/.codex/config.toml", ""},
		{"emacs", "", "", "unknown client"},
		{"", "", "", "it is missing"},
		{"codex", "global", "", "unknown scope for codex"},
	} {
		got, err := Find(tt.client, tt.scope, "/p")
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s %s: %v", tt.client, tt.scope, err)
			}
		case err != nil || got.Path != tt.path:
			t.Errorf("%s %s: %+v, %v", tt.client, tt.scope, got, err)
		}
	}
	t.Setenv("CODEX_HOME", "/elsewhere")
	if got, err := Find("codex", "", "/p"); err != nil || got.Path != "/elsewhere/config.toml" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCommand(t *testing.T) {
	s := Server{Name: "paddock", Command: "/opt/it's", Args: []string{"mcp", "--profile", "full"}}
	for name, want := range map[string]string{
		"claude-code": `claude mcp add --scope user paddock -- '/opt/it'\''s' mcp --profile full`,
		"vscode":      `code --add-mcp '{"args":["mcp","--profile","full"],"command":"/opt/it'\''s","name":"paddock"}'`,
	} {
		target, err := Find(name, User, "/p")
		if err != nil || Words(target.Command(s)) != want {
			t.Errorf("%s, %v", Words(target.Command(s)), err)
		}
	}
}

func TestServerCheck(t *testing.T) {
	for name, s := range map[string]Server{
		"no name": {Command: "x"}, "a dot": {Name: "a.b", Command: "x"}, "a quote": {Name: `a"`, Command: "x"},
		"a line": {Name: "a", Command: "x\ny"}, "no UTF-8": {Name: "a", Command: "x", Args: []string{"\xff"}},
	} {
		if s.Check() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := paddock.Check(); err != nil {
		t.Error(err)
	}
}

// TestAdd: files are made, changed in place of links and modes, and left alone.
func TestAdd(t *testing.T) {
	for name := range clients {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			target, err := Find(name, Project, dir)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []bool{true, false, false} {
				if changed, err := target.Server(paddock, i == 2).Do(); err != nil || changed != want {
					t.Errorf("%d: %v, %v", i, changed, err)
				}
			}
			data, err := os.ReadFile(target.Path)
			if err != nil || string(data) != target.Server(paddock, false).Text {
				t.Errorf("%v\n%s", err, data)
			}
			if info, err := os.Stat(target.Path); err != nil || info.Mode().Perm() != target.file.mode {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			if _, err := target.Server(bare, false).Do(); !errors.Is(err, ErrOther) {
				t.Errorf("another: %v", err)
			}
			if err := os.Chmod(target.Path, 0o640); err != nil {
				t.Fatal(err)
			}
			if changed, err := target.Server(bare, true).Do(); err != nil || !changed {
				t.Errorf("forced: %v, %v", changed, err)
			}
			if info, err := os.Stat(target.Path); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("its mode: %v, %v", info.Mode(), err)
			}
			if entries, _ := os.ReadDir(filepath.Dir(target.Path)); len(entries) != 1 {
				t.Errorf("beside it: %v", entries)
			}
		})
	}
}

// TestLeftAlone: what cannot be edited safely stays as it is.
func TestLeftAlone(t *testing.T) {
	type place struct{ dir, outside, path string }
	for name, tt := range map[string]struct {
		prepare func(place) error
		want    string
	}{
		"no JSON":     {func(p place) error { return os.WriteFile(p.path, []byte("{\n\"a\": }"), 0o600) }, "line 2, column 6: invalid character '}'"},
		"a link":      {func(p place) error { return os.Symlink(p.outside, p.path) }, "symbolic link"},
		"a directory": {func(p place) error { return os.Mkdir(p.path, 0o700) }, "not a regular file"},
		"a large one": {func(p place) error {
			return errors.Join(os.WriteFile(p.path, []byte("{}"), 0o600), os.Truncate(p.path, maxFile+1))
		}, "larger than 8 MiB"},
		"a directory elsewhere": {func(p place) error {
			return errors.Join(os.Remove(filepath.Dir(p.path)), os.Symlink(filepath.Dir(p.outside), filepath.Dir(p.path)))
		}, "escapes"},
	} {
		t.Run(name, func(t *testing.T) {
			p := place{dir: t.TempDir(), outside: filepath.Join(t.TempDir(), "mcp.json")}
			p.path = filepath.Join(p.dir, ".vscode", "mcp.json")
			if err := errors.Join(os.Mkdir(filepath.Dir(p.path), 0o700), os.WriteFile(p.outside, []byte("{}"), 0o600), tt.prepare(p)); err != nil {
				t.Fatal(err)
			}
			target, err := Find("vscode", "", p.dir)
			if err != nil {
				t.Fatal(err)
			}
			unsafe := (*UnsafeError)(nil)
			if _, err := target.Server(paddock, true).Do(); !errors.As(err, &unsafe) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			if data, err := os.ReadFile(p.outside); err != nil || string(data) != "{}" {
				t.Errorf("what is outside: %s, %v", data, err)
			}
		})
	}
}

// TestUserLink: a user's own file may be kept elsewhere.
func TestUserLink(t *testing.T) {
	home, kept := t.TempDir(), filepath.Join(t.TempDir(), "codex.toml")
	t.Setenv("CODEX_HOME", home)
	if err := errors.Join(os.WriteFile(kept, []byte("model = \"x\"\n"), 0o600), os.Symlink(kept, filepath.Join(home, "config.toml"))); err != nil {
		t.Fatal(err)
	}
	target, err := Find("codex", "", "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := target.Server(paddock, false).Do(); err == nil || !strings.Contains(err.Error(), "it is a symbolic link") {
		t.Fatalf("nobody has judged the link: %v", err)
	}
	change := target.Server(paddock, false)
	change.Follow = filepath.EvalSymlinks
	if changed, err := change.Do(); err != nil || !changed {
		t.Fatalf("%v, %v", changed, err)
	}
	data, err := os.ReadFile(kept)
	if err != nil || string(data) != "model = \"x\"\n\n"+target.Server(paddock, false).Text {
		t.Errorf("%s, %v", data, err)
	}
	if info, err := os.Lstat(filepath.Join(home, "config.toml")); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is %v, %v", info.Mode(), err)
	}
}

// FuzzJSON: what comes out of an edit is what was there with the server added, or
// nothing comes out.
func FuzzJSON(f *testing.F) {
	inputs, _ := filepath.Glob("testdata/*/*.in")
	for _, input := range inputs {
		data, err := os.ReadFile(input)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := newDocument(data)
		if valid := json.Valid(data); valid && err != nil && len(data) > 0 && strings.TrimLeft(string(data), " \t\r\n")[0] == '{' && !strings.Contains(err.Error(), "too deep") {
			t.Fatalf("JSON is refused: %v", err)
		} else if err == nil && string(d.root.Pack()) != strings.TrimPrefix(string(data), string(bom)) {
			t.Fatal("JSON is changed")
		}
		for _, one := range formats {
			got, err := one.edit(data, paddock, true)
			if err != nil {
				continue
			}
			if again, err := one.edit(got, paddock, false); err != nil || string(again) != string(got) {
				t.Fatalf("again: %v", err)
			}
			rest, err := one.remove(got, paddock.Name)
			if err != nil {
				continue
			}
			if servers, err := one.servers(rest); err != nil || servers[paddock.Name].Name != "" {
				t.Fatalf("removed: %v, %v", servers, err)
			}
		}
	})
}
