package exec

import (
	"fmt"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
)

// How much of each stream the text has, in characters.
const (
	shownStdout = 10000
	shownStderr = 5000
	truncated   = "\n... (truncated)"
)

// formatResult returns a result as text. What a command printed cannot end its fence, move
// a terminal's cursor or imitate one of our lines.
func formatResult(out ExecuteOutput) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	switch {
	case out.TimedOut:
		add("⏰ Command timed out after %.1fs", out.ExecutionTime)
	case out.Error != nil:
		add("❌ Error: %s", strings.ReplaceAll(text.ControlPictures(*out.Error), "\n", " "))
		return lines[0]
	case out.Success:
		add("✅ Command completed successfully (exit code: %d)", out.ExitCode)
	default:
		add("❌ Command failed (exit code: %d)", out.ExitCode)
	}
	if !out.TimedOut {
		add("⏱️ Execution time: %.3fs", out.ExecutionTime)
		add("")
	}
	stdout, stderr := strings.TrimSpace(out.Stdout), strings.TrimSpace(out.Stderr)
	if stdout != "" {
		if out.TimedOut {
			add("")
		}
		lines = append(lines, fenced("**stdout:**", text.TruncateCharacters(text.ControlPictures(stdout), shownStdout, truncated))...)
	}
	if stderr != "" {
		add("")
		lines = append(lines, fenced("**stderr:**", text.TruncateCharacters(text.ControlPictures(stderr), shownStderr, truncated))...)
	}
	return strings.Join(lines, "\n")
}

// fenced returns text between fences that are longer than any run of backticks in it.
func fenced(title, text string) []string {
	longest, run := 0, 0
	for _, c := range text {
		if run++; c != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", max(3, longest+1))
	return []string{title, fence, text, fence}
}
