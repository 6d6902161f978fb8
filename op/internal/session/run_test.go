package session

import (
	"testing"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

func TestSessionTexts(t *testing.T) {
	out := func(s string) paddock.SessionChunk { return paddock.SessionChunk{Data: s} }
	err := func(s string) paddock.SessionChunk { return paddock.SessionChunk{Data: s, Stderr: true} }
	plan := registry.SessionPlan{Opts: paddock.SessionOptions{MaxLines: 2, MaxBytes: 10, CommandTimeout: 1500e6}}
	for _, tt := range []struct {
		r    paddock.SessionResult
		want string
	}{
		{paddock.SessionResult{}, "<no output>"},
		{paddock.SessionResult{ExitCode: 2}, "<no output>\n\nExit code: 2"},
		{paddock.SessionResult{Output: []paddock.SessionChunk{out("a\nb"), err("e\n"), out("c\n")}}, "a\n[stderr] e\nbc"},
		{paddock.SessionResult{Output: []paddock.SessionChunk{out("no end")}}, "no end"},
		{paddock.SessionResult{Output: []paddock.SessionChunk{out("a\nb\n")}, TruncatedByLines: true, TotalLines: 9, ExitCode: 1},
			"a\nb\n\n... Output truncated at 2 lines (observed 9).\n\nExit code: 1"},
		{paddock.SessionResult{Output: []paddock.SessionChunk{out("aaaa\nbbbbb")}, TruncatedByBytes: true, TotalBytes: 30},
			"aaaa\n\n... Output truncated at 10 bytes (observed 30)."},
		{paddock.SessionResult{Output: []paddock.SessionChunk{out("aaaaaaaaaa")}, TruncatedByBytes: true, TotalBytes: 30},
			"aaaaaaaaaa\n\n... Output truncated at 10 bytes (observed 30)."},
		{paddock.SessionResult{TimedOut: true, ExitCode: 124, Output: []paddock.SessionChunk{out("x\n")}}, "Error: Command timed out after 1.5 seconds."},
		{paddock.SessionResult{ShellEnded: true, ExitCode: 3}, "<no output>\n\nExit code: 3\n\nThe shell has ended; restart the session to go on."},
	} {
		if got := sessionText(&tt.r, plan, outputText(&tt.r)); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.r, got, tt.want)
		}
	}
}
