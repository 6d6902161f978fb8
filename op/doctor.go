package op

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
)

// DoctorInput asks for nothing.
type DoctorInput struct{}

// DoctorOutput is what the host can do.
type DoctorOutput struct {
	// Usable says that the default spec can be kept here.
	Usable   bool             `json:"usable"`
	Backends []backend.Report `json:"backends"`
}

// ExitStatus is 0 only where the default spec can be kept.
func (o DoctorOutput) ExitStatus() int {
	if o.Usable {
		return 0
	}
	return 1
}

func doctorOp() Op {
	return New(Desc{
		Name:    "doctor",
		CLI:     []string{"doctor"},
		Summary: "Try what this host can do, and say what to do about what is missing",
		Doc: `Try each thing that Paddock needs of the kernel and of this host's settings, by
doing it, and print what works, what is missing, and what to do about that.
Then say what a spec can ask for here: the levels, networks and limits.

Exit status: 0 where a sandbox with all default walls can be made here, else 1.`,
		Examples: `  paddock doctor
  paddock doctor --json`,
		Hints: Hints{ReadOnly: true},
	}, doctor, renderDoctor)
}

func doctor(ctx context.Context, env *Env, _ DoctorInput, _ *Stream) (DoctorOutput, error) {
	report, err := paddock.Probe(ctx, env.Options)
	if err != nil {
		return DoctorOutput{}, err
	}
	return DoctorOutput{Usable: report.Usable, Backends: []backend.Report{report}}, nil
}

func renderDoctor(w io.Writer, out DoctorOutput) error {
	for _, report := range out.Backends {
		if err := renderReport(w, report); err != nil {
			return err
		}
	}
	return nil
}

// renderReport puts remedies below the tables: they are sentences.
func renderReport(w io.Writer, report backend.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "backend %s\n\n", report.Backend)
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
		if !f.OK && f.Remedy != "" {
			fmt.Fprintf(&b, "\n%s: %s\n", f.Name, f.Remedy)
		}
	}
	last := "usable: a sandbox with all default walls can be made here"
	if !report.Usable {
		last = "not usable: a sandbox with all default walls cannot be made here"
	}
	_, err := fmt.Fprintf(w, "%s\n%s\n", trimLines(b.String()), last)
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
