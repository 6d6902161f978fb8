package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/keep"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type ListInput struct {
	All    bool     `json:"all,omitempty" flag:"all" short:"a" help:"list stopped persistent sandboxes, too"`
	Filter []string `json:"filter,omitempty" flag:"filter" arg:"WHAT=VALUE" help:"list only those that it describes: name=NAME, state=running, paused, ending or stopped, label=NAME or label=NAME=VALUE; a state includes stopped ones (may be repeated)" max:"64"`
	Quiet  bool     `json:"quiet,omitempty" flag:"quiet" only:"cli" short:"q" help:"print ids alone"`
}

type ListOutput struct {
	Sandboxes []RunningSandbox `json:"sandboxes"`

	// Unasked says that there are so many that their agents were not asked what runs in them.
	Unasked bool `json:"unasked,omitempty"`

	quiet, filtered bool
}

// RunningSandbox describes a running sandbox and the commands in it.
type RunningSandbox struct {
	ID string `json:"id"`
	// Name and Labels are those of "paddock create".
	Name   string            `json:"name,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Principal is whose it is, if a server made it: then Name is that principal's for it.
	Principal string `json:"principal,omitempty"`
	// State is starting, running or silent: its agent does not answer. Of a persistent sandbox it
	// can also be paused, ending, stopped or damaged.
	State     string          `json:"state"`
	Backend   string          `json:"backend"`
	Network   string          `json:"network,omitempty"`
	Workspace osstring.String `json:"workspace,omitempty"` // its directory on this host
	// Published are its ports that this host listens for.
	Published []paddock.PublishedPort `json:"published,omitempty"`
	StartedAt time.Time               `json:"started_at"`
	Uptime    policy.Duration         `json:"uptime"`
	// Running, Processes and MemoryBytes come from the agent and are not verified.
	Running     []RunningTree `json:"running"`
	Processes   int           `json:"processes"`
	MemoryBytes int64         `json:"memory_bytes"`
	// Ended says how a stopped sandbox has ended, or what is wrong with a damaged one.
	Ended string `json:"ended,omitempty"`
}

// RunningTree is a command with everything that it has started.
type RunningTree struct {
	Kind      string    `json:"kind"` // exec, shell or service
	Name      string    `json:"name"` // a program, or the name of the shell or service
	StartedAt time.Time `json:"started_at"`
	Processes int       `json:"processes"`
}

// listTime bounds the request to each agent, and listAsked is how many are asked.
const (
	listTime  = 2 * time.Second
	listAsked = 64
)

func (ListInput) Desc() op.Desc {
	return op.Desc{
		Name:    "list",
		CLI:     []string{"list"},
		Alias:   "ps",
		Summary: "List running sandboxes, and what runs in them",
		Doc: `List the running sandboxes of every paddock of this user with the same state
directory: their ids, for how long they have run, their workspaces, and the
commands, shells and services in them. With more than 64 sandboxes these commands,
shells and services are left out; "paddock stats" counts them.

The id is also in the JSON result of "paddock run" and in the audit log.
"paddock exec ID -- CMD" runs a command there. A sandbox ends with the process
that opened it, one of "paddock create" when it is stopped; --all lists the stopped
ones, too.`,
		Examples: `  paddock list
  paddock ps --json | jq -r '.sandboxes[].id'
  paddock exec "$(paddock ps --json | jq -r '.sandboxes[0].id')" -- ps aux`,
		Local:  true,
		OfUser: true,
		Hints:  op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do asks the agents of all running sandboxes at the same time.
func (in ListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (ListOutput, error) {
	filter, err := keep.NewFilter(in.Filter)
	if err != nil {
		return ListOutput{}, err
	}
	var lasting []paddock.Listed
	var lastingErr error
	var wait sync.WaitGroup
	wait.Go(func() { lasting, lastingErr = paddock.ListLasting(ctx, env.Options) })
	running, err := paddock.ListOpened(ctx, env.Options)
	if wait.Wait(); lastingErr != nil {
		return ListOutput{}, lastingErr
	}
	running = append(running, stayed(lasting, running)...)
	slices.SortStableFunc(running, func(a, b paddock.Running) int { return a.Since.Compare(b.Since) })
	out := ListOutput{Sandboxes: make([]RunningSandbox, len(running)), quiet: in.Quiet, filtered: !filter.Empty(), Unasked: len(running) > listAsked}
	for i, r := range running {
		s := &out.Sandboxes[i]
		*s = RunningSandbox{ID: r.ID, State: "starting", Backend: r.Backend, Network: r.Spec.Network.Mode, Workspace: osstring.String(r.Spec.Workspace.Source),
			StartedAt: r.Since.UTC(), Uptime: policy.Duration(time.Since(r.Since).Round(time.Second)), Running: []RunningTree{}}
		switch {
		case !r.Ready:
		case out.Unasked || in.Quiet:
			s.State = paddock.StateRunning
		default:
			wait.Go(func() { s.ask(ctx, env.Options) })
		}
	}
	wait.Wait()
	out.Sandboxes = slices.DeleteFunc(out.Sandboxes, func(s RunningSandbox) bool { return s.State == "" })
	out.add(lasting, filter, in.All)
	return out, err
}

// stayed returns those of the persistent sandboxes which run, but for those that were opened when the
// list of others was read, and had no record yet.
func stayed(lasting []paddock.Listed, others []paddock.Running) (running []paddock.Running) {
	for _, k := range lasting {
		runs := k.State == paddock.StateRunning || k.State == paddock.StatePaused
		if runs && !slices.ContainsFunc(others, func(r paddock.Running) bool { return r.ID == k.ID }) {
			running = append(running, paddock.Running{ID: k.ID, Backend: k.Backend, Since: k.Started, Ready: true, Spec: k.Spec})
		}
	}
	return running
}

// add adds what is known of persistent sandboxes, and leaves out what the filter does not choose.
// Without all, those that do not run are left out, unless the filter names a state.
func (out *ListOutput) add(lasting []paddock.Listed, filter keep.Filter, all bool) {
	at, chosen := map[string]int{}, map[string]bool{}
	for i, s := range out.Sandboxes {
		at[s.ID], chosen[s.ID] = i, filter.Empty()
	}
	for _, k := range lasting {
		i, runs := at[k.ID]
		chosen[k.ID] = filter.Fits(k) && (all || filter.States() || k.State != paddock.StateStopped)
		if !runs {
			i = len(out.Sandboxes)
			if k.State == paddock.StateRunning || k.State == paddock.StatePaused { // it has ended meanwhile
				k.State = paddock.StateEnding
			}
			s := RunningSandbox{ID: k.ID, State: k.State, Backend: k.Backend, Network: k.Spec.Network.Mode, Workspace: osstring.String(k.Spec.Workspace.Source), StartedAt: k.Started, Running: []RunningTree{}}
			if s.Ended = k.Damage; k.End != nil && k.State == paddock.StateStopped {
				s.Ended = k.End.Reason
			}
			out.Sandboxes = append(out.Sandboxes, s)
		}
		s := &out.Sandboxes[i]
		s.Name, s.Labels = k.Name, k.Labels
		if k.Served {
			s.Principal = k.Principal
		}
		if k.State == paddock.StatePaused {
			s.State = k.State
		}
	}
	out.Sandboxes = slices.DeleteFunc(out.Sandboxes, func(s RunningSandbox) bool { return !chosen[s.ID] })
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
	s.State = paddock.StateRunning
	for _, tree := range now.Trees {
		at := time.UnixMilli(int64(tree.StartedAt * 1000)).UTC()
		s.Running = append(s.Running, RunningTree{Kind: tree.Kind, Name: tree.Name, StartedAt: at, Processes: tree.Processes})
		s.Processes += max(tree.Processes, 0)
		s.MemoryBytes += max(tree.MemoryBytes, 0)
	}
}

func (out ListOutput) Render(w io.Writer) error {
	if out.quiet {
		var b strings.Builder
		for _, s := range out.Sandboxes {
			b.WriteString(s.ID + "\n")
		}
		_, err := io.WriteString(w, b.String())
		return err
	}
	if len(out.Sandboxes) == 0 {
		line := "no sandbox runs"
		if out.filtered {
			line = "no sandbox matches the filter"
		}
		_, err := fmt.Fprintln(w, line)
		return err
	}
	t := output.Teller{W: w}
	t.Err = output.Table(w, func(row output.Row) {
		row("ID\tNAME\tUP\tBACKEND\tPROCESSES\tWORKSPACE\tRUNNING")
		for _, s := range out.Sandboxes {
			var names []string
			for _, tree := range s.Running {
				names = append(names, strings.TrimPrefix(tree.Kind+" ", "exec ")+tree.Name)
			}
			what := strings.Join(names, ", ")
			if s.State != paddock.StateRunning {
				what = strings.TrimSuffix(s.State+": "+s.Ended, ": ")
			}
			up := s.Uptime.String()
			if s.State == paddock.StateStopped || s.State == paddock.StateDamaged {
				up = "-"
			}
			name := text.OrDash(s.Name)
			if s.Principal != "" {
				name += " of " + text.Label(s.Principal)
			}
			row("%s\t%s\t%s\t%s\t%d\t%s\t%s", s.ID, name, up, s.Backend, s.Processes, text.Escape(text.OrDash(string(s.Workspace))), text.Label(text.OrDash(what)))
		}
	})
	for _, s := range out.Sandboxes {
		for _, p := range s.Published {
			t.Line("%s leads to port %d of %s", p.URL, p.Port, s.ID)
		}
	}
	return t.Err
}
