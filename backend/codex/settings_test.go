package codex

import (
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/policy"
)

// The dialects of versions that are out there.
var (
	flat     = dialect{}                           // 0.144 and later
	worded   = dialect{word: true, fullAuto: true} // 0.101, 0.125
	wordOnly = dialect{word: true}
)

func TestArguments(t *testing.T) {
	for _, tt := range []struct {
		name      string
		dialect   dialect
		platform  string
		overrides map[string]any
		want      []string
	}{
		{"as the contract has it", wordOnly, "linux", nil, []string{"/b/codex", "sandbox", "linux", "--"}},
		{"keys are sorted, values are JSON", wordOnly, "linux", map[string]any{"b.c": []any{"x", 1, true}, "a": "text", "c": 2.5},
			[]string{"/b/codex", "sandbox", "linux", "-c", `a="text"`, "-c", `b.c=["x", 1, true]`, "-c", "c=2.5", "--"}},
		{"macos", wordOnly, "macos", map[string]any{"a": 1}, []string{"/b/codex", "sandbox", "macos", "-c", "a=1", "--"}},
		{"no word", flat, "linux", map[string]any{"b": 1, "a": 2}, []string{"/b/codex", "sandbox", "-c", "a=2", "-c", "b=1", "--"}},
		{"the mode as a setting", flat, "linux", map[string]any{keyMode: modeWrite}, []string{"/b/codex", "sandbox", "-c", `sandbox_mode="workspace-write"`, "--"}},
		{"the mode as a flag", worded, "linux", map[string]any{keyMode: modeWrite},
			[]string{"/b/codex", "sandbox", "linux", "--full-auto", "-c", `sandbox_mode="workspace-write"`, "--"}},
		{"no flag for another mode", worded, "linux", map[string]any{keyMode: modeRead},
			[]string{"/b/codex", "sandbox", "linux", "-c", `sandbox_mode="read-only"`, "--"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := readOverrides(tt.overrides)
			if err != nil {
				t.Fatal(err)
			}
			if got := tt.dialect.arguments("/b/codex", tt.platform, s); !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestPlatform(t *testing.T) {
	const undecided = "Codex sandbox policy could not determine a supported platform; set 'platform' explicitly."
	for _, tt := range []struct{ goos, option, want, err string }{
		{"linux", "", "linux", ""},
		{"linux", "auto", "linux", ""},
		{"darwin", "auto", "macos", ""},
		{"linux", "macos", "macos", ""},
		{"darwin", "linux", "linux", ""},
		{"plan9", "linux", "linux", ""},
		{"plan9", "auto", "", undecided},
		{"windows", "", "", undecided},
		{"linux", "Linux", "", "must be one of auto, linux, macos"},
	} {
		got, err := platformOn(tt.goos, tt.option)
		if got != tt.want || errText(err) != tt.err {
			t.Errorf("%s, %q: got %q, %q", tt.goos, tt.option, got, errText(err))
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What makes the sandbox what a spec asks for.
func TestFill(t *testing.T) {
	const filled = `sandbox_mode="workspace-write" | sandbox_workspace_write.exclude_slash_tmp=true | ` +
		`sandbox_workspace_write.exclude_tmpdir_env_var=true | sandbox_workspace_write.network_access=false | sandbox_workspace_write.writable_roots=["/s/tmp"]`
	for _, tt := range []struct {
		name, network string
		overrides     map[string]any
		want, err     string
	}{
		{"nothing written", "none", nil, filled, ""},
		{"network", "host", nil, strings.Replace(filled, "network_access=false", "network_access=true", 1), ""},
		{"what is written stays", "none", map[string]any{keySlashTmp: false, "model": "x"}, `model="x" | ` + strings.Replace(filled, "slash_tmp=true", "slash_tmp=false", 1), ""},
		{"directories are added", "none", map[string]any{keyRoots: []string{"/a"}}, strings.Replace(filled, `["/s/tmp"]`, `["/a", "/s/tmp"]`, 1), ""},
		{"to none", "none", map[string]any{keyRoots: []string{}}, filled, ""},
		{"a profile decides alone", "none", map[string]any{keyPermissions: ":workspace"}, `default_permissions=":workspace"`, ""},
		{"so does another mode", "none", map[string]any{keyMode: modeRead}, `sandbox_mode="read-only"`, ""},
		{"no list", "none", map[string]any{keyRoots: "/a"}, "",
			`cannot use codex.config_overrides."sandbox_workspace_write.writable_roots" "\"/a\"": must be a list`},
		{"another network", "none", map[string]any{keyNetwork: true}, "",
			`cannot use codex.config_overrides."sandbox_workspace_write.network_access" "true": network is none`},
		{"the whole table", "none", map[string]any{keyWrite: map[string]any{"network_access": true}}, "",
			`cannot use codex.config_overrides.sandbox_workspace_write: the parts of this table are settings of their own`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := readOverrides(tt.overrides)
			if err == nil {
				err = s.fill(tt.network, "/s/tmp")
			}
			if errText(err) != tt.err {
				t.Fatalf("got %q, want %q", errText(err), tt.err)
			}
			if err == nil {
				if got := strings.Join(pairs(flat.arguments("b", "linux", s)), " | "); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			} else if len(policy.FieldErrors(err)) != 1 {
				t.Errorf("%T is no FieldError", err)
			}
		})
	}
}

func pairs(argv []string) (found []string) {
	for i, word := range argv {
		if word == "-c" {
			found = append(found, argv[i+1])
		}
	}
	return found
}
