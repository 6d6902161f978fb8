package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

type ListInput struct{}

type ListOutput struct {
	Sandboxes []RunningSandbox `json:"sandboxes"`
}

// RunningSandbox describes a running sandbox and the commands in it.
type RunningSandbox struct {
	ID        string `json:"id"`
	State     string `json:"state"` // starting, ready, or silent: its agent does not answer
	Backend   string `json:"backend"`
	Network   string `json:"network,omitempty"`
	Workspace string `json:"workspace,omitempty"` // its directory on this host
	// Published are its ports that this host listens for.
	Published []paddock.PublishedPort `json:"published,omitempty"`
	StartedAt time.Time               `json:"started_at"`
	Uptime    policy.Duration         `json:"uptime"`
	// Running, Processes and MemoryBytes come from the agent and are not verified.
	Running     []RunningTree `json:"running"`
	Processes   int           `json:"processes"`
	MemoryBytes int64         `json:"memory_bytes"`
}

// RunningTree is a command with everything that it has started.
type RunningTree struct {
	Kind      string    `json:"kind"` // exec, shell or service
	Name      string    `json:"name"` // a program, or the name of the shell or service
	StartedAt time.Time `json:"started_at"`
	Processes int       `json:"processes"`
}

// listTime bounds the request to each agent.
const listTime = 2 * time.Second

func (ListInput) Desc() op.Desc {
	return op.Desc{
		Name:    "list",
		CLI:     []string{"list"},
		Alias:   "ps",
		Summary: "List running sandboxes, and what runs in them",
		Doc: `List the running sandboxes of every paddock of this user with the same state
directory: their ids, for how long they have run, their workspaces, and the
commands, shells and services in them.

The id is also in the JSON result of "paddock run" and in the audit log.
"paddock exec --sandbox ID" runs a command there. A sandbox ends with the process
that opened it.`,
		Examples: `  paddock list
  paddock ps --json | jq -r '.sandboxes[].id'
  paddock exec --sandbox "$(paddock ps --json | jq -r '.sandboxes[0].id')" -- ps aux`,
		Local: true,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do asks the agents of all running sandboxes at the same time.
func (ListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (ListOutput, error) {
	running, err := paddock.List(ctx, env.Options)
	out := ListOutput{Sandboxes: make([]RunningSandbox, len(running))}
	var wait sync.WaitGroup
	for i, r := range running {
		s := &out.Sandboxes[i]
		*s = RunningSandbox{ID: r.ID, State: "starting", Backend: r.Backend, Network: r.Spec.Network.Mode, Workspace: r.Spec.Workspace.Source,
			StartedAt: r.Since.UTC(), Uptime: policy.Duration(time.Since(r.Since).Round(time.Second)), Running: []RunningTree{}}
		if r.Ready {
			wait.Go(func() { s.ask(ctx, env.Options) })
		}
	}
	wait.Wait()
	out.Sandboxes = slices.DeleteFunc(out.Sandboxes, func(s RunningSandbox) bool { return s.State == "" })
	return out, err
}

// ask asks the sandbox's agent what is running. It clears State if the sandbox has ended.
func (s *RunningSandbox) ask(ctx context.Context, opts paddock.Options) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	s.State = "silent"
	sandbox, err := paddock.Attach(ctx, s.ID, opts)
	switch {
	case errors.Is(err, paddock.ErrClosed): // it has ended meanwhile
		s.State = ""
		return
	case err != nil:
		return
	}
	defer func() { _ = sandbox.Close() }() // this only detaches
	if s.Published, err = sandbox.Published(); err != nil {
		return
	}
	now, err := sandbox.Stats(ctx)
	if err != nil {
		return
	}
	s.State = "ready"
	for _, tree := range now.Trees {
		at := time.UnixMilli(int64(tree.StartedAt * 1000)).UTC()
		s.Running = append(s.Running, RunningTree{Kind: tree.Kind, Name: tree.Name, StartedAt: at, Processes: tree.Processes})
		s.Processes += max(tree.Processes, 0)
		s.MemoryBytes += max(tree.MemoryBytes, 0)
	}
}

func (out ListOutput) Render(w io.Writer) error {
	if len(out.Sandboxes) == 0 {
		_, err := fmt.Fprintln(w, "no sandbox runs")
		return err
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "ID\tUP\tBACKEND\tPROCESSES\tWORKSPACE\tRUNNING")
	for _, s := range out.Sandboxes {
		var names []string
		for _, tree := range s.Running {
			names = append(names, strings.TrimPrefix(tree.Kind+" ", "exec ")+tree.Name)
		}
		what := strings.Join(names, ", ")
		if s.State != "ready" {
			what = s.State
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", s.ID, s.Uptime, s.Backend, s.Processes, text.Escape(text.OrDash(s.Workspace)), text.Label(text.OrDash(what)))
	}
	_ = table.Flush() // a Builder cannot fail
	for _, s := range out.Sandboxes {
		for _, p := range s.Published {
			fmt.Fprintf(&b, "%s leads to port %d of %s\n", p.URL, p.Port, s.ID)
		}
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
}
