package op

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/paddock-dev/paddock/internal/osstring"
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
		SpecFile: osstring.String(file), Workspace: new(osstring.String("/flag")), Network: new("none"), Unprotect: []string{".vscode"},
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
		Workspace: new(osstring.String("")), Network: new(""), Env: []string{"secret"}, EnvPass: []string{"UNSET"},
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

// Rules of fields are added to the file's and imply their mode; a mode without rules replaces
// all of it.
func TestNetworkOfFields(t *testing.T) {
	const none, host = "network: none\n", "network: host\n"
	const rules = "network: {allow: [{host: file.example}], deny: [{host: d.example}], limits: {connections: 3}}\n"
	of := func(mode string, allow ...string) policy.Network {
		n := policy.Network{Mode: mode}
		for _, name := range allow {
			n.Allow = append(n.Allow, policy.NetworkRule{Host: name})
		}
		return n
	}
	more := of("allow", "file.example", "a.example")
	more.Allow[1].Ports = []policy.Port{22}
	more.Deny, more.Limits.Connections = []policy.NetworkDenial{{Host: "d.example"}, {Host: "x.a.example"}}, 3
	kept := of("allow", "file.example")
	kept.Deny, kept.Limits.Connections = []policy.NetworkDenial{{Host: "d.example"}}, 3
	for _, tt := range []struct {
		file  string
		in    SpecInput
		want  policy.Network
		wrong string
	}{
		{none, SpecInput{}, of("none"), ""},
		{none, SpecInput{Allow: []string{"A.example"}}, of("allow", "a.example"), ""},
		{host, SpecInput{Allow: []string{"a.example"}}, of("allow", "a.example"), ""},
		{none, SpecInput{Network: new("allow"), Allow: []string{"a.example"}}, of("allow", "a.example"), ""},
		{none, SpecInput{Network: new("allow")}, of("allow"), ""},
		{none, SpecInput{Network: new("observe"), Allow: []string{"a.example"}}, of("observe", "a.example"), ""},
		{"network: observe", SpecInput{Allow: []string{"a.example"}}, of("allow", "a.example"), ""},
		{rules, SpecInput{Allow: []string{"a.example:22"}, Deny: []string{"X.a.example"}}, more, ""},
		{rules, SpecInput{Network: new("allow")}, kept, ""},
		{rules, SpecInput{Network: new("none")}, of("none"), ""},
		{rules, SpecInput{Network: new("host")}, of("host"), ""},
		{none, SpecInput{Network: new("none"), Allow: []string{"a.example"}}, policy.Network{}, `cannot use allow "a.example": network none uses no rules`},
		{none, SpecInput{Network: new("host"), Deny: []string{"a.example"}}, policy.Network{}, `cannot use deny "a.example": network host uses no rules`},
		{none, SpecInput{Allow: []string{"a.example:https"}}, policy.Network{}, `cannot use network.allow "a.example:https": it is not HOST or HOST:PORT[,PORT]`},
		{none, SpecInput{Deny: []string{"a.example:443"}}, policy.Network{}, `cannot use network.deny "a.example:443": it has a port`},
	} {
		file := filepath.Join(t.TempDir(), "spec.yaml")
		if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
			t.Fatal(err)
		}
		tt.in.SpecFile = osstring.String(file)
		got, err := tt.in.Spec(t.Context(), &Env{})
		if tt.wrong != "" {
			if found := policy.FieldErrors(err); len(found) != 1 || found[0].Error() != tt.wrong || found[0].Hint == "" {
				t.Errorf("%s%+v: %v, want %s", tt.file, tt.in.Network, err, tt.wrong)
			}
			continue
		}
		if diff := cmp.Diff(tt.want, got.Network, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%s %q %q: %v %s", tt.file, tt.in.Allow, tt.in.Deny, err, diff)
		}
	}
	_, _, err := NetworkRules(slices.Repeat([]string{"a b"}, 100_000), slices.Repeat([]string{"a b"}, 100_000))
	if found := policy.FieldErrors(err); len(found) != 16 {
		t.Errorf("%d errors", len(found))
	}
}

// TestToolsBelowACeiling: programs of the host are executed for operators alone.
func TestToolsBelowACeiling(t *testing.T) {
	env := &Env{Ceiling: &policy.Ceiling{Workspace: []policy.Place{{Source: "/srv", Mode: "rw"}}, Network: []string{"none", "allow"}, NetworkRules: []policy.NetworkRule{{Host: "**"}}}}
	spec, err := SpecInput{AllowFrom: []string{"npm,go"}}.Over(t.Context(), env, policy.Spec{})
	refused := (*policy.CeilingError)(nil)
	if !errors.As(err, &refused) || refused.Field != "allow_from" || len(spec.Network.Allow) > 0 {
		t.Errorf("%v, %+v", err, spec.Network)
	}
}

// TestObservePorts: the ports are rules for every name, and need the mode.
func TestObservePorts(t *testing.T) {
	ports := []string{"8080,22", "9418"}
	spec, err := SpecInput{Network: new("observe"), ObservePorts: ports, Allow: []string{"10.0.0.5"}}.Over(t.Context(), &Env{}, policy.Spec{})
	want := policy.Network{Mode: "observe", Allow: []policy.NetworkRule{{Host: "**", Ports: []policy.Port{8080, 22, 9418}}, {Host: "10.0.0.5"}}}
	if diff := cmp.Diff(want, spec.Network); err != nil || diff != "" {
		t.Errorf("%v: %s", err, diff)
	}
	for _, in := range []SpecInput{{ObservePorts: ports}, {Network: new("observe"), ObservePorts: []string{"x"}}, {Network: new("allow"), ObservePorts: ports}} {
		_, err := in.Over(t.Context(), &Env{}, policy.Spec{})
		if all := policy.FieldErrors(err); len(all) != 1 || all[0].Field != "observe_ports" {
			t.Errorf("%+v: %v", in, err)
		}
	}
}
