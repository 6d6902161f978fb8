package cli

import (
	"strings"
	"testing"
	"time"
)

// shownBy returns a line that is due, and what the terminal gets.
func shownBy(columns int) (*progressLine, *strings.Builder) {
	var to strings.Builder
	return &progressLine{to: &to, name: "cp", width: func() int { return columns }}, &to
}

// Names that commands have made steer no terminal, and the line never needs two.
func TestProgressLine(t *testing.T) {
	for _, tt := range []struct {
		done, total float64
		message     string
		columns     int
		want        string
	}{
		{1, 4, "1 B of 4 B", 80, "cp: 25%, 1 B of 4 B"},
		{9, 4, "more than all", 80, "cp: 100%, more than all"},
		{3, 0, "3 entries", 80, "cp: 3 entries"},
		{1, 2, "copied a\x1b[2Jb\r\nc\x07\u202e\u009b\xff", 80, `cp: 50%, copied a\x1b[2Jb\r c\a\u202e\u009b\xff`},
		{1, 2, strings.Repeat("x", 100), 20, "cp: 50%, xxxxxxxxxx"},
		{1, 2, strings.Repeat("漢", 100), 20, "cp: 50%, 漢漢漢漢漢"},
		{1, 2, "x", 0, ""},
	} {
		l, to := shownBy(tt.columns)
		l.say(tt.done, tt.total, tt.message)
		if got := to.String(); got != "\r\x1b[K"+tt.want {
			t.Errorf("%q is shown as %q", tt.message, got)
		}
	}
}

// The line comes late, is not drawn all the time, and is gone before anything else is written.
func TestProgressLineIsCleared(t *testing.T) {
	l, to := shownBy(80)
	l.clear()
	l.next = time.Now().Add(time.Hour)
	l.say(1, 2, "too early")
	other := &clearing{l, to}
	_, _ = other.Write([]byte("first\n"))
	l.next = time.Time{}
	l.say(1, 2, "shown")
	l.say(1, 2, "too often")
	_, _ = other.Write([]byte("second\n"))
	_, _ = other.Write([]byte("third\n"))
	if got, want := to.String(), "first\n\r\x1b[Kcp: 50%, shown\r\x1b[Ksecond\nthird\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	(*progressLine)(nil).clear()
}
