package table

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/policy"
)

// bare is a backend that can only talk about itself.
type bare struct {
	report backend.Report
	plan   *confine.Plan
}

func (bare) Name() string                           { return "linux" }
func (b bare) Probe(context.Context) backend.Report { return b.report }
func (b bare) Plan(context.Context, backend.Request) (*confine.Plan, error) {
	if b.plan == nil {
		return nil, errors.New("no plan")
	}
	return b.plan, nil
}

func (bare) Start(context.Context, backend.Request) (backend.Sandbox, error) {
	return nil, errors.New("cannot start")
}

// render calls an operation over a directory, which is /work in the text, and
// returns its output in both forms.
func render(t *testing.T, o op.Op, b bare, input string) (out any, text string) {
	t.Helper()
	self, err := os.Executable() // stands in for the agent
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := &op.Env{Options: paddock.Options{Backend: b, Dir: dir, Agent: self, StateDir: t.TempDir()}}
	out, err = o.Call(t.Context(), env, []byte(input), nil)
	if err != nil {
		t.Fatal(err)
	}
	var s strings.Builder
	if err := o.Render(&s, out); err != nil {
		t.Fatal(err)
	}
	return out, strings.NewReplacer(env.Options.StateDir, "/state", dir, "/work").Replace(s.String())
}

func TestDoctor(t *testing.T) {
	report := backend.Report{Backend: "linux", Features: []backend.Feature{
		{Name: "user namespaces", NeededBy: []string{"level full"}, Detail: "clone: EPERM", Remedy: "allow them"},
		{Name: "landlock", OK: true, Detail: "ABI 7", NeededBy: []string{"level landlock"}},
		{Name: "cgroup2"},
	}}
	report.Judge("level full", "level landlock")
	out, text := render(t, op.Of[sandbox.DoctorInput](), bare{report: report}, `{}`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text = strings.Replace(text, self, "AGENT", 1)
	want := `backend linux

not usable: a sandbox with all default walls cannot be made here
user namespaces: clone: EPERM
hint: allow them

  agent program    ok       AGENT
  state directory  ok       /state
  user namespaces  missing  clone: EPERM
  landlock         ok       ABI 7
  cgroup2          missing
  network by name  missing  it needs level full
  layers           missing  it needs level full

  level full         no   missing: user namespaces
  level landlock     yes
  network allow      no   missing: network by name
  workspace overlay  no   missing: layers
`
	if text != want {
		t.Errorf("doctor says\n%s\nwant\n%s", text, want)
	}
	if out.(op.Statuser).ExitStatus() != 1 {
		t.Error("the exit status says that the host can be used")
	}
	// Where nothing is missing a sandbox is made, and that decides.
	report.Features[0].OK = true
	report.Judge("level full", "level landlock")
	out, text = render(t, op.Of[sandbox.DoctorInput](), bare{report: report}, `{}`)
	if !strings.HasPrefix(text, "backend linux\n\nnot usable: a sandbox with all default walls cannot be made here\na sandbox: cannot start\n\n  agent") ||
		!strings.Contains(text, "\n  level full         no   missing: a sandbox\n") || out.(op.Statuser).ExitStatus() != 1 {
		t.Errorf("doctor says\n%s", text)
	}
}

func TestPlan(t *testing.T) {
	plan := &confine.Plan{
		Command:    []string{"wall", "--say", "a\nb"},
		Namespaces: []confine.Namespace{confine.NSUser, confine.NSMount},
		UIDs:       []confine.IDMap{{Inside: 1000, Host: 1001, Count: 1}},
		Setup: []confine.Step{
			{Do: confine.OpTmpfs, Target: "/tmp", Flags: []string{"nosuid"}, Mode: 0o1777, Size: 1 << 20, Why: "private"},
			{Do: confine.OpBind, Source: "/usr", Target: "/usr", Flags: []string{"ro"}, Why: "programs"},
			{Do: confine.OpBind, Source: "/a", Target: "/b", Why: "asked for"},
			{Do: confine.OpSysctl, Target: "user/max", Source: "0", Optional: true, Why: "none"},
		},
		Spawn: []confine.Step{{Do: confine.OpCaps, Why: "no capability stays"}},
		Holds: policy.Isolation{Namespaces: []string{"user"}, Network: "none", KeptGroups: []int{4, 20}},
	}
	out, text := render(t, op.Of[sandbox.PlanInput](), bare{plan: plan}, `{"unprotect":["*"],"hostname":"pen"}`)
	for _, line := range []string{
		"workspace   /work (rw)\n", "the wall\n  wall\n  --say\n  \"a\\nb\"\n", "namespaces  user mount\n", "uid         1000 inside is 1001 outside (1)\n",
		"  1  tmpfs   /tmp nosuid mode=1777 size=1MiB  private\n",
		"  2  bind    /usr ro                          programs\n",
		"  3  bind    /a → /b                          asked for\n",
		"  4  sysctl  user/max = 0 optional            none\n",
		"  1  caps  keep=none  no capability stays\n",
		"kept groups             4 20\n", "  landlock                none\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the plan lacks %q:\n%s", line, text)
		}
	}
	p := out.(sandbox.PlanOutput)
	if p.Spec.Hostname != "pen" || p.Spec.Limits.Tmp != policy.DefaultTmp || len(p.Protected) != 0 {
		t.Errorf("plan is %+v", p)
	}
}

func TestPlanOfANetworkByName(t *testing.T) {
	plan := &confine.Plan{Holds: policy.Isolation{Network: "allow", Egress: policy.Network{Allow: []policy.NetworkRule{{Host: "api.example.com"}}}.Egress("gateway")}}
	_, text := render(t, op.Of[sandbox.PlanInput](), bare{plan: plan}, `{"allow":["API.example.com","10.0.0.0/8:5432"],"deny":["x.example.com"]}`)
	for _, part := range []string{
		"\nthe network, by name\n  open    api.example.com  443, 80\n  open    10.0.0.0/8       5432\n  closed  x.example.com    -\n  at most 256 connections at once\n  paddock-egress, a process outside",
		"network                 allow (api.example.com; by a gateway)\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("the plan lacks %q:\n%s", part, text)
		}
	}
	if _, text := render(t, op.Of[sandbox.PlanInput](), bare{plan: &confine.Plan{}}, `{}`); strings.Contains(text, "by name") {
		t.Errorf("without a network: %s", text)
	}
}

func TestVersion(t *testing.T) {
	_, text := render(t, op.Of[sandbox.VersionInput](), bare{}, `{}`)
	for _, word := range []string{"paddock ", "\nbuild ", "\nwire     1\n", "\ngo       go1.", "\nplatform "} {
		if !strings.Contains(text, word) {
			t.Errorf("version lacks %q: %q", word, text)
		}
	}
}

func TestRunRefusesBeforeItStarts(t *testing.T) {
	tests := []struct{ input, want string }{
		{`{}`, "cannot run: no command was given"},
		{`{"argv":[]}`, "cannot run: no command was given"},
		{`{"argv":[""]}`, "cannot run: the command is empty"},
		{`{"argv":["true"],"tty":true}`, "cannot run with a terminal: the output is captured"},
		{`{"argv":["true"],"network":"some"}`, `cannot use network "some": it must be "none", "allow", "observe" or "host"`},
	}
	for _, tt := range tests {
		_, err := op.Of[exec.RunInput]().Call(t.Context(), &op.Env{Options: paddock.Options{Backend: bare{}}}, []byte(tt.input), nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("run %s: %v, want %q", tt.input, err, tt.want)
		}
		if strings.Contains(tt.input, "tty") && op.HintOf(err) != "leave out --tty or --json" {
			t.Errorf("run %s: hint %q", tt.input, op.HintOf(err))
		}
	}
}

func TestRunOutputExitStatus(t *testing.T) {
	tests := []struct {
		out  exec.RunOutput
		want int
	}{
		{exec.RunOutput{}, 0}, {exec.RunOutput{ExitCode: 255}, 255}, {exec.RunOutput{ExitCode: -9}, 137},
		{exec.RunOutput{ExitCode: 124, Ended: exec.Ended{TimedOut: true}}, 124},
	}
	for _, tt := range tests {
		if got := tt.out.ExitStatus(); got != tt.want {
			t.Errorf("%+v exits with %d, want %d", tt.out, got, tt.want)
		}
	}
}
