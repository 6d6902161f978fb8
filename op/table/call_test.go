package table

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/admin"
	"github.com/paddock-dev/paddock/op/internal/exec"
	"github.com/paddock-dev/paddock/op/internal/sandbox"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// grants is a store in memory.
type grants map[string]privilege.Set

func (g grants) Get(_ context.Context, who string) (privilege.Set, error) { return g[who], nil }
func (g grants) List(context.Context) (map[string]privilege.Set, error)   { return g, nil }
func (grants) Close() error                                               { return nil }
func (g grants) Update(_ context.Context, who string, change func(privilege.Set) privilege.Set) (before, after privilege.Set, err error) {
	before = g[who]
	g[who] = change(before)
	return before, g[who], nil
}

type toolInput struct {
	Path  string   `json:"path" arg:"PATH" help:"where"`
	Env   []string `json:"env,omitempty"`
	Stdin string   `json:"stdin,omitempty"`
	Key   string   `json:"key,omitempty" secret:"all"`
}

type toolOutput struct {
	Path    string           `json:"path"`
	Denials []paddock.Denial `json:"denials,omitempty"`
}

func (toolOutput) ExitStatus() int { return 7 }

// tool is an operation whose body is do.
func tool(needs privilege.Set, hints op.Hints, do func(context.Context, *op.Env, toolInput) (toolOutput, error)) op.Op {
	return op.New(op.Desc{Name: "tool", Needs: needs, Hints: hints},
		func(ctx context.Context, env *op.Env, in toolInput, _ *op.Stream) (toolOutput, error) {
			return do(ctx, env, in)
		},
		func(io.Writer, toolOutput) error { return nil })
}

func done(_ context.Context, _ *op.Env, in toolInput) (toolOutput, error) {
	return toolOutput{Path: in.Path, Denials: []paddock.Denial{{Layer: "mount", Rule: "read-only", Object: "/etc"}}}, nil
}

// office is an environment with a log and grants in it.
func office(t testing.TB) *op.Env {
	t.Helper()
	log := audit.At(filepath.Join(t.TempDir(), "state", "audit"), audit.Options{})
	t.Cleanup(func() { _ = log.Close() })
	return &op.Env{
		Principal:  &privilege.Principal{Name: "local:me", Admin: true},
		Privileges: func() (privilege.Store, error) { return grants{"local:me": privilege.UnsandboxedExec}, nil },
		Audit:      log,
		Warn:       func(err error) { t.Errorf("warned: %v", err) },
	}
}

// recorded are the log's records, in short.
func recorded(t *testing.T, env *op.Env) []string {
	t.Helper()
	r, err := audit.Open(env.Audit.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []string
	for e, err := r.Next(); err == nil; e, err = r.Next() {
		rec := e.Record
		text := strings.TrimSpace(fmt.Sprint(rec.Kind, " ", rec.Call, " ", rec.Principal, " ", rec.Op, " ", string(rec.Args), " ", rec.Outcome, " ", rec.Error))
		all = append(all, strings.Join(strings.Fields(text), " "))
	}
	return all
}

func TestCallIsRecorded(t *testing.T) {
	broken := errors.New("cannot do it with sesame-open")
	tests := []struct {
		name  string
		op    op.Op
		input string
		want  []string
	}{
		{"an ordinary one", tool(0, op.Hints{}, done), `{"path":"/x"}`,
			[]string{`begin 0 local:me tool {"path":"/x"}`, "end 1 local:me tool ok"}},
		{"one that only reads leaves a log that is not there alone", tool(0, op.Hints{ReadOnly: true}, done), `{"path":"/x"}`, nil},
		{"a privileged one", tool(privilege.UnsandboxedExec, op.Hints{ReadOnly: true}, done), `{"path":"/x"}`,
			[]string{`begin 0 local:me tool {"path":"/x"}`, "end 1 local:me tool ok"}},
		{"one that fails", tool(0, op.Hints{}, func(context.Context, *op.Env, toolInput) (toolOutput, error) { return toolOutput{}, broken }),
			`{"path":"/x","key":"sesame-open"}`,
			[]string{`begin 0 local:me tool {"path":"/x","key":"[redacted]"}`, "end 1 local:me tool error cannot do it with [redacted]"}},
		{"an input that cannot be read", tool(0, op.Hints{}, done), `{"path":1}`,
			[]string{"call 0 local:me tool error cannot read the input of tool: path must not be a JSON number"}},
		{"a privilege that is missing", tool(privilege.AlterPrivileges|privilege.UnsandboxedExec, op.Hints{}, done), `{"path":"/x","env":["A=secret"]}`,
			[]string{`call 0 local:me tool {"path":"/x","env":["A=[redacted]"]} denied`}},
		{"a privilege that is missing, an input that cannot be read", tool(privilege.AlterPrivileges|privilege.UnsandboxedExec, op.Hints{}, done), `{`,
			[]string{"call 0 local:me tool denied"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := office(t)
			env.Principal.Admin = false
			_, _ = tt.op.Call(t.Context(), env, []byte(tt.input), nil)
			if tt.want == nil {
				if env.Audit.Exists() {
					t.Error("a log was made")
				}
				return
			}
			got := recorded(t, env)
			for i := range got {
				if before, _, ok := strings.Cut(got[i], " denied "); ok { // the text is the store's
					got[i] = before + " denied"
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if r, err := audit.Verify(t.Context(), env.Audit.Dir(), ""); err != nil || !r.OK {
				t.Errorf("the chain is %+v, %v", r, err)
			}
		})
	}
}

func TestRecordTellsTheResult(t *testing.T) {
	env := office(t)
	if _, err := tool(0, op.Hints{}, done).Call(t.Context(), env, []byte(`{"path":"/x"}`), nil); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := op.Of[admin.AuditReadInput]().Call(t.Context(), env, []byte(`{"op":"tool"}`), &op.Stream{Stdout: &b}); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"1 local:me tool begins args={\"path\":\"/x\"}\n", "2 local:me tool ok call=1 exit=7 ", `denied="mount read-only /etc"`} {
		if !strings.Contains(b.String(), part) {
			t.Errorf("%q lacks %q", b.String(), part)
		}
	}
}

// TestOrderOfQuestions: who asks, then what they may, then what they said.
func TestOrderOfQuestions(t *testing.T) {
	ran := false
	o := tool(privilege.UnsandboxedExec, op.Hints{}, func(context.Context, *op.Env, toolInput) (toolOutput, error) {
		ran = true
		return toolOutput{}, nil
	})
	tests := []struct {
		name  string
		spoil func(*op.Env)
		want  string
	}{
		{"nobody", func(e *op.Env) { e.Principal = nil }, "No context."},
		{"no store", func(e *op.Env) { e.Privileges = nil }, "Privilege system unavailable."},
		{"a store out of reach", func(e *op.Env) {
			e.Privileges = func() (privilege.Store, error) { return nil, errors.New("gone") }
		}, "Privilege system unavailable."},
		{"no grant", func(e *op.Env) {
			e.Privileges = func() (privilege.Store, error) { return grants{}, nil }
		}, "The user does not have the UNSANDBOXED_EXEC privilege. Ask an admin to grant it with the alter_privileges tool."},
		{"a bad input", func(*op.Env) {}, "cannot read the input of tool: the JSON object is not complete"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := office(t)
			tt.spoil(env)
			out, err := o.Call(t.Context(), env, []byte(`{`), nil)
			if err == nil || err.Error() != tt.want || out != nil || ran {
				t.Errorf("Call gives %v, %v; want %q", out, err, tt.want)
			}
		})
	}
}

// TestLogThatCannotBeWritten: operations are refused, unless they free something, read
// alone, or need no record; those that need a privilege always are.
func TestLogThatCannotBeWritten(t *testing.T) {
	env := office(t)
	if err := os.WriteFile(filepath.Dir(env.Audit.Dir()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		hints      op.Hints
		bestEffort bool
		ceiling    *policy.Ceiling
		done       bool
		notes      int
	}{
		{hints: op.Hints{}},
		{hints: op.Hints{Destructive: true, Control: true}},
		{ceiling: &policy.Ceiling{}, notes: 1}, // the operator is somebody else
		{bestEffort: true, done: true, notes: 1},
		{hints: op.Hints{Frees: true}, done: true, notes: 1},
		{hints: op.Hints{ReadOnly: true}, done: true},
	} {
		own, notes, ran := *env, 0, false
		own.Warn, own.AuditBestEffort, own.Ceiling = func(error) { notes++ }, tt.bestEffort, tt.ceiling
		_, err := tool(0, tt.hints, func(context.Context, *op.Env, toolInput) (toolOutput, error) {
			ran = true
			return toolOutput{}, nil
		}).Call(t.Context(), &own, []byte(`{"path":"/x"}`), nil)
		if ran != tt.done || (err == nil) != tt.done || notes != tt.notes {
			t.Errorf("%+v: done: %v, %v, %d notes", tt, ran, err, notes)
		}
		if err != nil && (!strings.HasPrefix(err.Error(), "cannot do tool: it cannot be recorded: ") || !strings.Contains(op.HintOf(err), "`audit` best-effort")) {
			t.Errorf("%v, hint %q", err, op.HintOf(err))
		}
	}
	ran := false
	o := tool(privilege.UnsandboxedExec, op.Hints{}, func(context.Context, *op.Env, toolInput) (toolOutput, error) {
		ran = true
		return toolOutput{}, nil
	})
	_, err := o.Call(t.Context(), env, []byte(`{"path":"/x"}`), nil)
	if err == nil || !strings.HasPrefix(err.Error(), "cannot do tool, which must be recorded: ") || ran {
		t.Errorf("a privileged one: %v", err)
	}
	env.Audit = nil
	if _, err = o.Call(t.Context(), env, []byte(`{"path":"/x"}`), nil); err == nil || ran {
		t.Errorf("a privileged one without a log: %v", err)
	}
}

func TestResultThatCannotBeRecorded(t *testing.T) {
	env := office(t)
	o := tool(privilege.UnsandboxedExec, op.Hints{}, func(_ context.Context, env *op.Env, _ toolInput) (toolOutput, error) {
		file := filepath.Join(env.Audit.Dir(), "audit-00000001.jsonl")
		return toolOutput{Path: "done"}, errors.Join(os.Rename(file, file+".moved"), os.Mkdir(file, 0o700))
	})
	out, err := o.Call(t.Context(), env, []byte(`{"path":"/x"}`), nil)
	if out != nil || err == nil || !strings.HasPrefix(err.Error(), "cannot acknowledge tool, which was done: ") {
		t.Errorf("Call gives %v, %v", out, err)
	}
}

func TestInterruptedCallIsRecorded(t *testing.T) {
	env := office(t)
	ctx, cancel := context.WithCancel(t.Context())
	o := tool(0, op.Hints{}, func(ctx context.Context, _ *op.Env, _ toolInput) (toolOutput, error) {
		cancel()
		return toolOutput{}, ctx.Err()
	})
	if _, err := o.Call(ctx, env, []byte(`{"path":"/x"}`), nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := recorded(t, env); len(got) != 2 || got[1] != "end 1 local:me tool error context canceled" {
		t.Errorf("recorded %q", got)
	}
}

// An operation that panics has an end in the log; the panic goes on to its door.
func TestPanicIsRecorded(t *testing.T) {
	env := office(t)
	o := tool(0, op.Hints{}, func(context.Context, *op.Env, toolInput) (toolOutput, error) { panic("oops") })
	func() {
		defer func() {
			if p := recover(); p != "oops" {
				t.Errorf("it goes on as %v", p)
			}
		}()
		_, _ = o.Call(t.Context(), env, []byte(`{"path":"/x"}`), nil)
	}()
	if got := recorded(t, env); len(got) != 2 || got[1] != "end 1 local:me tool error cannot finish tool: it panicked" {
		t.Errorf("recorded %q", got)
	}
}

func TestCeiling(t *testing.T) {
	for _, tt := range []struct {
		op    op.Op
		input string
	}{{op.Of[exec.RunInput](), `{"argv":["true"],"network":"host"}`}, {op.Of[sandbox.PlanInput](), `{"network":"host"}`}} {
		env := office(t)
		env.Ceiling = &policy.Ceiling{Workspace: []policy.Place{{Source: "/", Mode: "rw"}}}
		env.Options = paddock.Options{Backend: bare{}}
		_, _ = tool(0, op.Hints{}, done).Call(t.Context(), env, []byte(`{"path":"/"}`), nil) // there is a log
		var tooMuch *policy.CeilingError
		if _, err := tt.op.Call(t.Context(), env, []byte(tt.input), nil); !errors.As(err, &tooMuch) || tooMuch.Rule != "ceiling.network" {
			t.Errorf("%s: %v", tt.op.Name, err)
		}
		got := recorded(t, env)
		if last := got[len(got)-1]; !strings.Contains(last, `denied cannot use network "host": the ceiling does not allow it`) {
			t.Errorf("%s: recorded %q", tt.op.Name, got)
		}
	}
}

// TestCeilingOfFiles: whoever has a ceiling is not told what files of the host hold.
func TestCeilingOfFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(file, []byte("root:secret:19000::\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		op    op.Op
		input string
	}{
		{op.Of[exec.RunInput](), `{"argv":["true"],"spec_file":%q}`}, {op.Of[sandbox.PlanInput](), `{"spec_file":%q}`},
		{op.Of[exec.ExecuteInput](), `{"command":["true"],"spec_file":%q}`}, {op.Of[exec.ExecuteInput](), `{"command":["true"],"config":%q}`},
		{op.Of[admin.PolicyCheckInput](), `{"command":["true"],"spec_file":%q}`}, {op.Of[admin.PolicyListInput](), `{"spec_file":%q}`},
	} {
		env := office(t)
		env.Options = paddock.Options{Backend: bare{}}
		input := fmt.Sprintf(tt.input, file)
		if _, err := tt.op.Call(t.Context(), env, []byte(input), nil); err == nil || errors.As(err, new(*policy.CeilingError)) {
			t.Errorf("%s without a ceiling: %v", tt.op.Name, err)
		}
		env.Ceiling = &policy.Ceiling{Workspace: []policy.Place{{Source: "/", Mode: "rw"}}}
		_, err := tt.op.Call(t.Context(), env, []byte(input), nil)
		if !errors.As(err, new(*policy.CeilingError)) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", tt.op.Name, err)
		}
	}
}

// answer is an output that is an error by itself.
type answer struct {
	Success bool             `json:"success"`
	Error   *string          `json:"error"`
	Denials []paddock.Denial `json:"denials,omitempty"`
}

func answering(what answer) op.Op {
	return op.New(op.Desc{Name: "ask", Needs: privilege.UnsandboxedExec},
		func(context.Context, *op.Env, toolInput, *op.Stream) (answer, error) { return what, nil },
		func(io.Writer, answer) error { return nil }).
		AnsweringErrors(func(err error) any { text := err.Error(); return answer{Error: &text} })
}

// TestErrorsAsAnswers: what a contract has as answers is no error, and goes on
// record as what it is.
func TestErrorsAsAnswers(t *testing.T) {
	text := "it is not allowed"
	tests := []struct {
		name  string
		what  answer
		spoil func(*op.Env)
		input string
		error string
		want  string
	}{
		{"done", answer{Success: true}, nil, `{}`, "", "ok"},
		{"failed", answer{Error: &text}, nil, `{}`, text, "error " + text},
		{"refused by rules", answer{Error: &text, Denials: []paddock.Denial{{Layer: "command"}}}, nil, `{}`, text, "denied " + text},
		{"not granted", answer{}, func(e *op.Env) { e.Principal.Name = "local:other" }, `{}`,
			"The user does not have the UNSANDBOXED_EXEC privilege. Ask an admin to grant it with the alter_privileges tool.",
			"denied The user does not have the UNSANDBOXED_EXEC privilege. Ask an admin to grant it with the alter_privileges tool."},
		{"not read", answer{}, nil, `{"x":1}`, `cannot read the input of ask: unknown field "x"`, `error cannot read the input of ask: unknown field "x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := office(t)
			if tt.spoil != nil {
				tt.spoil(env)
			}
			out, err := answering(tt.what).Call(t.Context(), env, []byte(tt.input), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := op.ErrorIn(out); got != tt.error {
				t.Errorf("the answer's error is %q, want %q", got, tt.error)
			}
			got := recorded(t, env)
			if last := got[len(got)-1]; !strings.HasSuffix(last, tt.want) {
				t.Errorf("recorded %q, want %q", last, tt.want)
			}
		})
	}
	out, err := answering(answer{}).Call(t.Context(), nil, []byte(`{}`), nil)
	if err != nil || op.ErrorIn(out) != "No context." {
		t.Errorf("without an environment: %v, %v", out, err)
	}
}
