package exec

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/text"
)

// How much of each stream the text has, in characters.
const (
	shownStdout = 10000
	shownStderr = 5000
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
		add("❌ Error: %s", strings.ReplaceAll(text.Harmless(*out.Error), "\n", " "))
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
		lines = append(lines, fenced("**stdout:**", shorten(text.Harmless(stdout), shownStdout))...)
	}
	if stderr != "" {
		add("")
		lines = append(lines, fenced("**stderr:**", shorten(text.Harmless(stderr), shownStderr))...)
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

// shorten cuts text to most code points, but not inside a character that consists of several.
func shorten(text string, most int) string {
	at, count := 0, 0
	for i := range text {
		if at = i; count == most {
			break
		}
		count++
	}
	if count < most || at == 0 || utf8.RuneCountInString(text) <= most {
		return text
	}
	return text[:boundary(text, at)] + "\n... (truncated)"
}

// maxCluster bounds the search for a boundary, in code points: a character can have any
// number of marks.
const maxCluster = 64

// boundary returns at, or the nearest place before it that is not inside a character.
func boundary(text string, at int) int {
	cut := at
	for range maxCluster {
		next, _ := utf8.DecodeRuneInString(text[cut:])
		before, size := utf8.DecodeLastRuneInString(text[:cut])
		if cut == 0 || !joins(before, next, text[:cut]) {
			return cut
		}
		cut -= size
	}
	return at
}

const zeroWidthJoiner = 0x200d

// joins reports whether next belongs to the same character as before.
func joins(before, next rune, upTo string) bool {
	switch {
	case next == zeroWidthJoiner, before == zeroWidthJoiner, unicode.Is(unicode.M, next):
		return true
	case next >= 0x1f3fb && next <= 0x1f3ff: // skin tones
		return true
	case next >= 0xe0020 && next <= 0xe007f: // tags of flags
		return true
	case isRegional(before) && isRegional(next):
		return regionalRun(upTo)%2 == 1
	case next >= 0x1160 && next <= 0x11ff: // vowels and finals of Hangul
		return true
	}
	return false
}

func isRegional(c rune) bool { return c >= 0x1f1e6 && c <= 0x1f1ff }

// regionalRun counts the regional indicators at the end of text. Two of them make a flag.
func regionalRun(text string) int {
	n := 0
	for n < maxCluster {
		c, size := utf8.DecodeLastRuneInString(text)
		if !isRegional(c) {
			break
		}
		text = text[:len(text)-size]
		n++
	}
	return n
}
