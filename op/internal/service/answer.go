package service

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
	"github.com/paddock-dev/paddock/wire"
)

// ServiceOutput is what a service is now.
type ServiceOutput struct {
	Name       string     `json:"name"`
	State      string     `json:"state"` // running, exited (by itself), failed (before it was ready) or stopped
	Ready      bool       `json:"ready"`
	Command    string     `json:"command"`
	Cwd        string     `json:"cwd"`
	StartedAt  time.Time  `json:"started_at"`
	ReadyAt    *time.Time `json:"ready_at,omitempty"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	ExitCode   *int       `json:"exit_code,omitempty"`   // of one that has ended; -N where signal N ended it
	StopReason string     `json:"stop_reason,omitempty"` // process_exited_before_ready, readiness_timeout, sigterm or sigkill
	// LogTail is the end of what it has printed, of one that is not ready or
	// ended by itself.
	LogTail string `json:"log_tail,omitempty"`
}

// maxShown bounds a command in an answer, in bytes.
const maxShown = 500

func newServiceOutput(r wire.Service) ServiceOutput {
	out := ServiceOutput{Name: r.ServiceName, State: r.State, Ready: r.ReadyAt != nil && r.State == registry.Running, Command: text.FirstOf(r.Command, maxShown),
		Cwd: strings.ToValidUTF8(string(r.Cwd), "\uFFFD"), StartedAt: registry.Moment(r.StartedAt), ReadyAt: registry.MomentOr(r.ReadyAt), EndedAt: registry.MomentOr(r.EndedAt), ExitCode: r.ExitCode}
	if r.StopReason != nil {
		out.StopReason = *r.StopReason
	}
	return out
}

// line says in one line what the service is.
func (o ServiceOutput) line() string {
	text := "service " + o.Name + ": " + o.State
	switch {
	case o.Ready:
		text += ", ready"
	case o.State == registry.Running:
		text += ", not ready yet"
	}
	if o.ExitCode != nil {
		text += ", exit status " + strconv.Itoa(*o.ExitCode)
	}
	if o.StopReason != "" {
		text += " (" + o.StopReason + ")"
	}
	return text
}

// Render writes the output for people.
func (o ServiceOutput) Render(w io.Writer) error {
	text := o.line() + "\n"
	if o.LogTail != "" {
		text += "its last lines:\n" + strings.TrimSuffix(o.LogTail, "\n") + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}

// ServiceStopOutput is a service at its end.
type ServiceStopOutput struct {
	ServiceOutput
	// SurvivorsKilled counts processes that TERM did not end; DeathProved says
	// that none is left. Neither says anything of one that had ended before.
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`
}

// Render writes the output for people.
func (o ServiceStopOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s%s\n", o.line(), output.Proof(o.SurvivorsKilled, o.DeathProved || o.State != "stopped"))
	return err
}

// ServiceListOutput is every service of a sandbox.
type ServiceListOutput struct {
	Services []ServiceOutput `json:"services"`
	// NotShown counts those that the answer has no room for.
	NotShown int `json:"not_shown,omitempty"`
}

// Take puts services into the answer: those that run first, as many as the
// budget has room for.
func (o *ServiceListOutput) take(list []wire.Service, budget int) {
	for _, running := range []bool{true, false} {
		for _, r := range list {
			if (r.State == registry.Running) != running {
				continue
			}
			one := newServiceOutput(r)
			if budget > 0 {
				if budget -= 2 * (text.EncodedLen(one.Command) + text.EncodedLen(one.Cwd) + 400); budget <= 0 {
					o.NotShown++
					budget = 1
					continue
				}
			}
			o.Services = append(o.Services, one)
		}
	}
}

// Render writes the output for people.
func (o ServiceListOutput) Render(w io.Writer) error {
	if len(o.Services) == 0 {
		_, err := fmt.Fprintln(w, "there are no services")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range o.Services {
		if _, err := fmt.Fprintf(t, "%s\t%s\n", s.line(), text.FirstOf(strings.ReplaceAll(s.Command, "\n", " "), 80)); err != nil {
			return err
		}
	}
	if o.NotShown > 0 {
		if _, err := fmt.Fprintf(t, "and %d more\n", o.NotShown); err != nil {
			return err
		}
	}
	return t.Flush()
}

// ServiceLogsOutput is what a service has printed.
type ServiceLogsOutput struct {
	ServiceOutput
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// StdoutTruncated and StderrTruncated say that something before is left out.
	StdoutTruncated bool `json:"stdout_truncated"`
	StderrTruncated bool `json:"stderr_truncated"`
}

// newServiceLogs keeps the end of both streams within the bounds.
func newServiceLogs(r wire.LogsServiceResult, plain bool, limit, room int) ServiceLogsOutput {
	out := ServiceLogsOutput{ServiceOutput: newServiceOutput(r.Service), Stdout: r.Stdout, Stderr: r.Stderr,
		StdoutTruncated: r.StdoutTruncated, StderrTruncated: r.StderrTruncated}
	if plain {
		out.Stdout, out.Stderr = text.PlainText(out.Stdout), text.PlainText(out.Stderr)
	}
	room = min(limit, room)
	// What one stream does not need is the other's.
	first := min(text.EncodedLen(out.Stdout), max(room/2, room-text.EncodedLen(out.Stderr)))
	a, b := fitEnd(out.Stdout, first), fitEnd(out.Stderr, room-first)
	out.StdoutTruncated = out.StdoutTruncated || len(a) < len(out.Stdout)
	out.StderrTruncated = out.StderrTruncated || len(b) < len(out.Stderr)
	out.Stdout, out.Stderr = a, b
	return out
}

// fitEnd is the end of a text that takes at most n bytes in JSON.
func fitEnd(s string, n int) string {
	for s != "" && text.EncodedLen(s) > n {
		over := text.EncodedLen(s) - n
		s = text.LastOf(s, max(0, len(s)-max(over/6, 1)))
	}
	return s
}

// Tell is for [Teller]: the state first, then what was printed.
func (o ServiceLogsOutput) Tell(w io.Writer) error {
	if _, err := fmt.Fprintln(w, o.line()); err != nil {
		return err
	}
	return o.Render(w)
}

// Render writes the output for people.
func (o ServiceLogsOutput) Render(w io.Writer) error {
	for _, s := range []struct {
		name, text string
		cut        bool
	}{{"stdout", o.Stdout, o.StdoutTruncated}, {"stderr", o.Stderr, o.StderrTruncated}} {
		if s.text == "" && !s.cut {
			continue
		}
		cut := ""
		if s.cut {
			cut = " (the end of it)"
		}
		if _, err := fmt.Fprintf(w, "--- %s%s\n%s\n", s.name, cut, strings.TrimSuffix(s.text, "\n")); err != nil {
			return err
		}
	}
	return nil
}
