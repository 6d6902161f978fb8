package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

type DoctorInput struct {
	Backend *string `json:"backend,omitempty" flag:"backend" arg:"NAME" choices:"linux,host,docker,codex,wrapper" help:"check only this backend (default: all)"`
}

type DoctorOutput struct {
	// Usable reports that the default spec can be enforced here, with the backend that
	// the input names or with the default one.
	Usable   bool             `json:"usable"`
	Backends []backend.Report `json:"backends"`
}

// ExitStatus returns 0 if the default spec can be enforced, else 1.
func (out DoctorOutput) ExitStatus() int {
	if out.Usable {
		return 0
	}
	return 1
}

func (DoctorInput) Desc() op.Desc {
	return op.Desc{
		Name:    "doctor",
		CLI:     []string{"doctor"},
		Summary: "Check what this host can do, and say how to get what is missing",
		Doc: `Try each feature that Paddock needs of the kernel and of this host's settings, and
then make a sandbox with all default walls, in which a command runs and nothing can
be written. Print first whether that works, and what to do if not; then each
feature, what a spec can ask for here (levels, networks and limits), and how to get
the rest. The other backends follow; no sandbox is made with them.

If the paddock of a sandbox was killed, what its commands left behind is reported
on standard error, once, as by the next start of a sandbox.

Exit status: 0 if a sandbox with all default walls can be made here, else 1; with
--backend, whether that backend can make one.`,
		Examples: `  paddock doctor
  paddock doctor --backend docker
  paddock doctor --json`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do probes all backends at the same time: some wait for an engine, or for a program's start.
func (in DoctorInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (DoctorOutput, error) {
	backends, err := env.BackendsToProbe(in.Backend)
	if err != nil {
		return DoctorOutput{}, err
	}
	reports, errs := make([]backend.Report, len(backends)), make([]error, len(backends))
	var all sync.WaitGroup
	for i, be := range backends {
		opts := env.Options
		opts.Backend = be
		all.Go(func() {
			reports[i], errs[i] = paddock.Probe(ctx, opts)
			if reports[i].Usable && reports[i].Backend == policy.DefaultBackend {
				attempt(ctx, env, &reports[i])
			}
			if reports[i].Backend == policy.BackendHost {
				withPrivilege(ctx, env, &reports[i])
			}
		})
	}
	all.Wait()
	late := paddock.TellUnreported(ctx, env.Options, env.ReportLeftovers)
	return DoctorOutput{Usable: reports[0].Usable, Backends: reports}, errors.Join(late, errors.Join(errs...))
}

// withPrivilege adds whether the caller may use a backend without walls.
func withPrivilege(ctx context.Context, e *op.Env, r *backend.Report) {
	f := backend.Feature{Name: "the privilege for it", OK: true}
	if err := privilege.CheckOpened(ctx, e.Privileges, e.Principal, privilege.UnsandboxedExec); err != nil {
		f.OK, f.Detail, f.Remedy, r.Usable = false, err.Error(), op.HintOf(err), false
		for i := range r.Abilities {
			r.Abilities[i].OK, r.Abilities[i].Missing = false, append(r.Abilities[i].Missing, f.Name)
		}
	}
	r.Features = append(r.Features, f)
}

// attemptTime bounds the attempt to make a sandbox.
const attemptTime = time.Minute

// attempt makes a sandbox with all default walls and runs a command in it, because that can
// fail although each feature works. The workspace is empty and read-only, so that nothing
// remains on the host, and no ceiling applies.
func attempt(ctx context.Context, e *op.Env, r *backend.Report) {
	ctx, cancel := context.WithTimeout(ctx, attemptTime)
	defer cancel()
	own := *e
	own.Ceiling = nil
	dir, err := os.MkdirTemp("", "paddock-doctor-")
	if err == nil {
		var sandbox *paddock.Sandbox
		if sandbox, err = own.Open(ctx, policy.Spec{Workspace: policy.Workspace{Source: dir, Access: "ro"}}); err == nil {
			err = errors.Join(sandbox.Command(ctx, "true").Run(), sandbox.Close())
		}
		err = errors.Join(err, os.Remove(dir))
	}
	f := backend.Feature{Name: "a sandbox", OK: err == nil, Detail: "made one with all default walls, and ran true in it"}
	if err != nil {
		f.Detail, f.Remedy, r.Usable = err.Error(), op.HintOf(err), false
	}
	if len(r.Abilities) > 0 {
		first := &r.Abilities[0]
		if f.NeededBy = []string{first.Name}; err != nil {
			first.OK, first.Missing = false, append(first.Missing, f.Name)
		}
	}
	r.Features = append(r.Features, f)
}

func (out DoctorOutput) Render(w io.Writer) error {
	for i, report := range out.Backends {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := renderReport(w, report); err != nil {
			return err
		}
	}
	return nil
}

// renderReport writes first whether the default spec can be enforced, and what to do if not.
// Other remedies are below the tables, since they are sentences.
func renderReport(w io.Writer, report backend.Report) error {
	var b strings.Builder
	what := "a sandbox with all default walls"
	if report.Backend != policy.DefaultBackend {
		what = "a sandbox of backend " + report.Backend
	}
	usable := "usable: " + what + " can be made here"
	if !report.Usable {
		usable = "not usable: " + what + " cannot be made here"
	}
	fmt.Fprintf(&b, "backend %s\n\n%s\n", report.Backend, usable)
	var missing, without []string // what the default spec lacks, and what else specs cannot ask for
	for i, a := range report.Abilities {
		switch {
		case i == 0:
			missing = a.Missing
		case !a.OK && report.Usable:
			without = append(without, a.Name)
		}
	}
	for _, f := range report.Features {
		if !slices.Contains(missing, f.Name) {
			continue
		}
		fmt.Fprintf(&b, "%s: %s\n", f.Name, f.Detail)
		if f.Remedy != "" {
			fmt.Fprintf(&b, "hint: %s\n", f.Remedy)
		}
	}
	if len(without) > 0 {
		fmt.Fprintf(&b, "not available here: %s\n", strings.Join(without, "; "))
	}
	b.WriteString("\n")
	_ = output.Table(&b, func(row output.Row) { // a Builder cannot fail
		for _, f := range report.Features {
			row("  %s\t%s\t%s", f.Name, map[bool]string{true: "ok", false: "missing"}[f.OK], f.Detail)
		}
		row("")
		for _, a := range report.Abilities {
			lacks := ""
			if len(a.Missing) > 0 {
				lacks = "missing: " + strings.Join(a.Missing, ", ")
			}
			row("  %s\t%s\t%s", a.Name, map[bool]string{true: "yes", false: "no"}[a.OK], lacks)
		}
	})
	for _, f := range report.Features {
		if !f.OK && f.Remedy != "" && !slices.Contains(missing, f.Name) {
			fmt.Fprintf(&b, "\n%s: %s\n", f.Name, f.Remedy)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
