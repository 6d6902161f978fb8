package session

import (
	"fmt"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

// What people and models are told of a command in a session, in the words that
// a contract fixes.
const (
	noOutput       = "<no output>"
	restarted      = "Shell session restarted."
	restartFailed  = "Failed to restart shell session."
	needEither     = "Shell tool requires either 'command' or 'restart'."
	needOne        = "Specify only one of 'command' or 'restart'."
	needCommand    = "Shell tool expects a 'command' string when restart is not requested."
	stderrPrefix   = "[stderr] "
	shellEndedNote = "The shell has ended; restart the session to go on."
)

// lines are what was kept of the output, a line at a time in the order in
// which lines were complete, those of standard error marked. A last line that
// a bound has cut is left out, unless it is all there is.
func outputLines(r *paddock.SessionResult) []string {
	var list []string
	var part [2]strings.Builder
	add := func(stream int) {
		prefix := ""
		if stream == 1 {
			prefix = stderrPrefix
		}
		list = append(list, prefix+strings.ToValidUTF8(part[stream].String(), "\uFFFD"))
		part[stream].Reset()
	}
	last := 0
	for _, c := range r.Output {
		last = 0
		if c.Stderr {
			last = 1
		}
		for rest := c.Data; rest != ""; {
			line, after, whole := strings.Cut(rest, "\n")
			part[last].WriteString(line)
			if rest = after; whole {
				add(last)
			}
		}
	}
	for stream := range part {
		if part[stream].Len() > 0 && (!r.TruncatedByBytes || stream != last || len(list) == 0) {
			add(stream)
		}
	}
	return list
}

// outputText is the output as one text.
func outputText(r *paddock.SessionResult) string { return strings.Join(outputLines(r), "\n") }

// sessionText is the whole answer as one text.
func sessionText(r *paddock.SessionResult, p registry.SessionPlan) string {
	return sessionTextOf(r, p, outputText(r))
}

// sessionTextOf is sessionText with so much of the output.
func sessionTextOf(r *paddock.SessionResult, p registry.SessionPlan, text string) string {
	if r.TimedOut {
		limit := p.Opts.CommandTimeout.Seconds()
		return fmt.Sprintf("Error: Command timed out after %.1f seconds.", limit)
	}
	if text == "" {
		text = noOutput
	}
	add := func(format string, args ...any) {
		text = strings.TrimRight(text, " \t\r\n") + "\n\n" + fmt.Sprintf(format, args...)
	}
	if r.TruncatedByLines {
		add("... Output truncated at %d lines (observed %d).", p.Opts.MaxLines, r.TotalLines)
	}
	if r.TruncatedByBytes {
		add("... Output truncated at %d bytes (observed %d).", p.Opts.MaxBytes, r.TotalBytes)
	}
	if r.ExitCode != 0 {
		add("Exit code: %d", r.ExitCode)
	}
	if r.ShellEnded {
		add("%s", shellEndedNote)
	}
	return text
}
