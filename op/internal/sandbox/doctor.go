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
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

// DoctorInput asks about all backends, or one.
type DoctorInput struct {
	Backend *string `json:"backend,omitempty" flag:"backend" arg:"NAME" choices:"linux,host,docker,codex,wrapper" help:"look at this backend alone (default: all)"`
}

// DoctorOutput is what the host can do.
type DoctorOutput struct {
	// Usable says that the default spec can be kept here; where one backend was
	// asked about, that its default spec can.
	Usable   bool             `json:"usable"`
	Backends []backend.Report `json:"backends"`
}

// ExitStatus is 0 only where the default spec can be kept.
func (out DoctorOutput) ExitStatus() int {
	if out.Usable {
		return 0
	}
	return 1
}

// Desc describes the operation doctor.
func (DoctorInput) Desc() op.Desc {
	return op.Desc{
		Name:    "doctor",
		CLI:     []string{"doctor"},
		Summary: "Try what this host can do, and say what to do about what is missing",
		Doc: `Try each thing that Paddock needs of the kernel and of this host's settings, by
doing it, and make a sandbox with all default walls, in which a command runs and
nothing can be written. Print first whether that can be had, and what to do if
not; then each thing, what a spec can ask for here (the levels, networks and
limits), and what to do about the rest. The other backends follow, of which no
sandbox is made.

What sandboxes left behind whose paddock was killed is reported on standard error,
once, as by the next start.

Exit status: 0 where a sandbox with all default walls can be made here, else 1;
with --backend, whether that backend can make one.`,
		Examples: `  paddock doctor
  paddock doctor --backend docker
  paddock doctor --json`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do probes all at once: some wait for an engine, or for a program's start.
func (in DoctorInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (DoctorOutput, error) {
	backends, err := env.Probed(in.Backend)
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

// withPrivilege adds whether who asks may use a backend that has no walls.
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

// attemptTime bounds a sandbox that is made to see whether one can be.
const attemptTime = time.Minute

// attempt makes a sandbox with all default walls and runs a command in it: each
// thing that it needs may be there, and the whole fail. Its empty workspace is
// read-only, so that it leaves nothing; no ceiling bounds what is tried.
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

// Render writes the output for people.
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

// renderReport puts first whether the default spec can be kept, and what to do
// if not. Other remedies are below the tables: they are sentences.
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
	var missing, without []string // what the default spec needs, and what more cannot be asked for
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
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, f := range report.Features {
		// A Builder cannot fail, so neither can the table before its Flush.
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\n", f.Name, standing(f.OK), f.Detail)
	}
	_, _ = fmt.Fprint(table, "\n")
	for _, a := range report.Abilities {
		_, _ = fmt.Fprintf(table, "  %s\t%s\t%s\n", a.Name, verdict(a.OK), lacks(a.Missing))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, f := range report.Features {
		if !f.OK && f.Remedy != "" && !slices.Contains(missing, f.Name) {
			fmt.Fprintf(&b, "\n%s: %s\n", f.Name, f.Remedy)
		}
	}
	_, err := io.WriteString(w, trimLines(b.String()))
	return err
}

func standing(ok bool) string {
	if ok {
		return "ok"
	}
	return "missing"
}

func verdict(ok bool) string {
	if ok {
		return "yes"
	}
	return "no"
}

func lacks(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return "for want of " + strings.Join(missing, ", ")
}

// trimLines removes the blanks that a table leaves behind an empty last cell.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}
