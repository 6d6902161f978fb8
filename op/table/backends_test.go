package table

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

func TestSpecFieldsOfBackends(t *testing.T) {
	file := filepath.Join(t.TempDir(), "spec.yaml")
	text := "backend: docker\ndocker: {image: debian, extra_run_args: [--init]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		in   op.BackendInput
		file string
		want policy.Spec
		err  string
	}{
		{in: op.BackendInput{Backend: new("docker"), Image: new("alpine"), Engine: new("podman"), User: new("0"), ReadOnlyRoot: true, EngineArgs: []string{"-x"}},
			want: policy.Spec{Backend: "docker", Docker: &policy.Docker{Image: "alpine", Binary: "podman", User: "0", ReadOnlyRootFS: true, ExtraRunArgs: []string{"-x"}}}},
		{file: file, in: op.BackendInput{Engine: new("podman"), EngineArgs: []string{"-x"}},
			want: policy.Spec{Backend: "docker", Docker: &policy.Docker{Image: "debian", Binary: "podman", ExtraRunArgs: []string{"--init", "-x"}}}},
		{in: op.BackendInput{Wrapper: new("ssh host"), WrapperAgent: new("/opt/agent")},
			want: policy.Spec{Backend: "wrapper", Wrapper: &policy.Wrapper{Command: []string{"ssh", "host"}, Agent: "/opt/agent"}}},
		{in: op.BackendInput{Backend: new("linux"), Wrapper: new("ssh host")},
			want: policy.Spec{Backend: "linux", Wrapper: &policy.Wrapper{Command: []string{"ssh", "host"}}}}, // refused when it is resolved
		{in: op.BackendInput{Backend: new("codex"), CodexConfig: []string{"a.b=true", `c="x=y"`, "d=[1]"}},
			want: policy.Spec{Backend: "codex", Codex: &policy.Codex{ConfigOverrides: map[string]any{"a.b": true, "c": "x=y", "d": []any{1.0}}}}},
		{in: op.BackendInput{CodexConfig: []string{"a=b"}}, err: `cannot use codex_config[0] "a=b": it is not KEY=JSON`},
		{in: op.BackendInput{CodexConfig: []string{"a"}}, err: `cannot use codex_config[0] "a": it is not KEY=JSON`},
		{in: op.BackendInput{Image: new("")}, err: `cannot use image: it is empty`},
		{in: op.BackendInput{Backend: new("")}, err: `cannot use backend: it is empty`},
		{in: op.BackendInput{Wrapper: new("")}, err: `cannot use wrapper: it is empty`},
		{in: op.BackendInput{Wrapper: new("a; b")}, err: `cannot use wrapper "a; b": it has a ; outside quotes, which a shell would act upon`},
	}
	for _, tt := range tests {
		got, err := op.SpecInput{SpecFile: osstring.String(tt.file), BackendInput: tt.in}.Spec(t.Context(), &op.Env{})
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("got %v, want %s", err, tt.err)
			}
			continue
		}
		tt.want.Env = map[string]string{}
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// stub is a backend that can say its name, and makes no plan but an empty one.
type stub string

func (n stub) Name() string { return string(n) }
func (n stub) Probe(context.Context) backend.Report {
	return backend.Report{Backend: string(n), Usable: n == "docker"}
}

func (stub) Plan(context.Context, backend.Request) (*confine.Plan, error) {
	return &confine.Plan{}, nil
}

func (n stub) Start(context.Context, backend.Request) (backend.Sandbox, error) {
	return nil, errors.New("this is " + string(n))
}

// fleet is an environment with several backends.
func fleet(t *testing.T, names ...stub) *op.Env {
	t.Helper()
	env := office(t)
	self, err := os.Executable() // stands in for the agent
	if err != nil {
		t.Fatal(err)
	}
	env.Options = paddock.Options{Dir: t.TempDir(), Agent: self, StateDir: t.TempDir()}
	for _, n := range names {
		env.Backends = append(env.Backends, n)
	}
	return env
}

func TestBackendIsChosenBySpec(t *testing.T) {
	env := fleet(t, "linux", "docker")
	tests := []struct{ input, want string }{
		{`{"argv":["true"]}`, "this is linux"},
		{`{"argv":["true"],"backend":"docker"}`, "this is docker"},
		{`{"argv":["true"],"backend":"codex"}`, `cannot use backend "codex": this program does not have it`},
		{`{"argv":["true"],"wrapper":"ssh host"}`, `cannot use backend "wrapper": this program does not have it`},
		{`{"argv":["true"],"image":"debian"}`, `cannot use docker: it is for backend docker`},
		{`{"argv":["true"],"backend":"docker","level":"full"}`, `cannot use level "full": backend docker has one level`},
	}
	for _, tt := range tests {
		_, err := op.Of[exec.RunInput]().Call(t.Context(), env, []byte(tt.input), nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.input, err, tt.want)
		}
	}
}

func TestHostBackendNeedsThePrivilege(t *testing.T) {
	const lacks = "The user does not have the UNSANDBOXED_EXEC privilege. Ask an admin to grant it with the alter_privileges tool."
	input := []byte(`{"argv":["true"],"backend":"host"}`)
	env := fleet(t, "linux", "host")
	if _, err := op.Of[exec.RunInput]().Call(t.Context(), env, input, nil); err == nil || err.Error() != "this is host" {
		t.Errorf("with the privilege: %v", err)
	}
	env.Options.Backend = stub("host")
	if _, err := op.Of[exec.RunInput]().Call(t.Context(), env, []byte(`{"argv":["true"]}`), nil); err == nil || err.Error() != "this is host" {
		t.Errorf("where the door's own backend is host: %v", err)
	}
	env.Privileges = func() (privilege.Store, error) { return grants{}, nil }
	for _, be := range []backend.Backend{nil, stub("host")} {
		env.Options.Backend = be
		for _, o := range []op.Op{op.Of[exec.RunInput](), op.Of[sandbox.PlanInput]()} {
			in := input
			if o.Name == "plan" {
				in = []byte(`{"backend":"host"}`)
			}
			_, err := o.Call(t.Context(), env, in, nil)
			denied := (*privilege.Denied)(nil)
			if !errors.As(err, &denied) || err.Error() != lacks || denied.Hint != "paddock privilege grant local:me UNSANDBOXED_EXEC" {
				t.Errorf("%s without the privilege: %v", o.Name, err)
			}
		}
	}
	records := recorded(t, env)
	if last := records[len(records)-1]; !strings.Contains(last, "denied") {
		t.Errorf("the last record is %s", last)
	}
}

func TestHostBackendIsPutOnRecord(t *testing.T) {
	env := fleet(t, "host")
	env.Audit, env.Warn = nil, nil
	_, err := op.Of[exec.RunInput]().Call(t.Context(), env, []byte(`{"argv":["true"],"backend":"host"}`), nil)
	if err == nil || err.Error() != "cannot do run: there is no audit log to record it in" {
		t.Errorf("without a log: %v", err)
	}
}

func TestDoctorOfSeveralBackends(t *testing.T) {
	tests := []struct {
		input  string
		names  string
		usable bool
		err    string
	}{
		{`{}`, "linux docker", false, ""},
		{`{"backend":"docker"}`, "docker", true, ""},
		{`{"backend":"host"}`, "", false, `cannot use backend "host": this program does not have it`},
	}
	for _, tt := range tests {
		out, err := op.Of[sandbox.DoctorInput]().Call(t.Context(), fleet(t, "linux", "docker"), []byte(tt.input), nil)
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v", tt.input, err)
			}
			continue
		}
		got, ok := out.(sandbox.DoctorOutput)
		if !ok || err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range got.Backends {
			names = append(names, r.Backend)
		}
		var b strings.Builder
		if err := operation(t, "doctor").Render(&b, got); err != nil {
			t.Fatal(err)
		}
		if strings.Join(names, " ") != tt.names || !strings.Contains(b.String(), "\nusable: a sandbox of backend docker can be made here\n") {
			t.Errorf("%s: %v\n%s", tt.input, names, b.String())
		}
	}
}
