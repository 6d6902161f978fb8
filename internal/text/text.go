// Package text is the one place that cuts, cleans and bounds text:
//
//   - cuts that never split a character ([Truncate], [Tail], [CutMiddle], [TruncateCharacters],
//     [TrimPartialEnd]), and writers that keep a part of a stream ([Head], [HeadTail]);
//   - text that is safe to show: names ([QuoteName]), lines ([Escape], [Printable], [Label]),
//     texts ([ControlPictures]), and the content of files, which is read back ([EncodeHidden],
//     [DecodeHidden]);
//   - output of terminals without control sequences ([Strip], [StripPart], [RenderTerminal]);
//   - bytes as UTF-8 ([Decoder]), and the size of a text in JSON ([JSONSize], [Cost]).
//
// Every text may come from a command, so none is trusted. The package needs only the standard
// library, and may be imported everywhere, the agent included.
package text

import (
	"fmt"
	"strings"
	"time"
)

// OrDash returns the text, or "-" if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// OrNone returns the text, or "none" if it is empty.
func OrNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// Size returns a number of bytes for people, rounded: "1.5 GiB".
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	for f >= 1<<10 && len(units) > 1 {
		f, units = f/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", f, units[0])
}

// Count returns a number of things: "1 file", "2 files", "3 processes", "4 sandboxes".
func Count[N int | int64](n N, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case strings.HasSuffix(what, "s"), strings.HasSuffix(what, "x"):
		what += "e"
	case strings.HasSuffix(what, "ry"):
		what = strings.TrimSuffix(what, "y") + "ie"
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Span returns a duration without units that are zero: "8h", not "8h0m0s".
func Span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
