package op

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/policy"
)

func TestSpecFieldsOverrideTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spec.yaml")
	text := `workspace: {source: /file, unprotected: [.envrc]}
network: host
hostname: pen
env: {A: file, B: file}
mounts: [{source: /a, target: /x}, {source: /b}]
limits: {timeout: 1m, open_files: 100}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	in := SpecInput{
		SpecFile: file, Workspace: new("/flag"), Network: new("none"), Unprotect: []string{".vscode"},
		RO: []string{"/c:/x"}, RW: []string{"/d"}, Env: []string{"B=flag=1", "C="}, EnvPass: []string{"D"},
		LimitFields: policy.LimitFields{Timeout: new(policy.Duration(0)), Output: new(policy.MiB)},
	}
	env := &Env{LookupEnv: func(name string) (string, bool) { return "passed", name == "D" }}
	got, err := in.Spec(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	want := policy.Spec{
		Workspace: policy.Workspace{Source: "/flag", Unprotected: []string{".envrc", ".vscode"}},
		Network:   policy.Network{Mode: "none"}, Hostname: "pen",
		Env: map[string]string{"A": "file", "B": "flag=1", "C": "", "D": "passed"},
		Mounts: []policy.Mount{
			{Source: "/b"}, {Source: "/c", Target: "/x", Mode: "ro"}, {Source: "/d", Mode: "rw"},
		},
		Limits: policy.Limits{OpenFiles: 100, Output: policy.MiB},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestSpecTellsAllThatIsWrong(t *testing.T) {
	in := SpecInput{
		Workspace: new(""), Network: new(""), Env: []string{"secret"}, EnvPass: []string{"UNSET"},
		RO: []string{"a:b"}, LimitFields: policy.LimitFields{Timeout: new(policy.Duration(time.Second))},
	}
	_, err := in.Spec(t.Context(), &Env{})
	var fields []string
	for _, f := range policy.FieldErrors(err) {
		fields = append(fields, f.Field+" "+f.Value)
	}
	want := []string{"workspace ", "network ", "ro a:b", "env_pass UNSET", "env[0] "}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("errors (-want +got):\n%s\n%v", diff, err)
	}
}

func TestParseMount(t *testing.T) {
	tests := []struct {
		text string
		want policy.Mount
		bad  bool
	}{
		{text: "/a", want: policy.Mount{Source: "/a"}},
		{text: "a/b", want: policy.Mount{Source: "a/b"}},
		{text: "/a:/b", want: policy.Mount{Source: "/a", Target: "/b"}},
		{text: "/a:~/b", want: policy.Mount{Source: "/a", Target: "~/b"}},
		{text: "/a:x/y:/b", want: policy.Mount{Source: "/a:x/y", Target: "/b"}},
		{text: "/a:b", bad: true},
		{text: "/a:", bad: true},
	}
	for _, tt := range tests {
		got, err := parseMount("", tt.text)
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("parseMount(%q) = %+v, %v", tt.text, got, err)
		}
	}
}
