package op

import (
	"testing"

	"github.com/paddock-dev/paddock"
)

// One principal's sessions are not another's, and nobody keeps too many.
func TestSessionsOfPrincipals(t *testing.T) {
	s := &Sessions{}
	for range maxPrincipalSessions {
		key, err := s.reserve("ann", "")
		if err != nil || !s.put(key, &keptSession{key: key}) {
			t.Fatal(key, err)
		}
	}
	if _, err := s.reserve("ann", ""); err == nil {
		t.Error("ann keeps one too many")
	}
	key, err := s.reserve("bob", "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.reserve("bob", "x"); err == nil {
		t.Error("two sessions have one name")
	}
	if _, err := s.find("bob", "x"); err == nil {
		t.Error("a session that is being opened was found")
	}
	s.put(key, &keptSession{key: key})
	if _, err := s.find("ann", "x"); err == nil {
		t.Error("ann finds bob's session")
	}
	if _, err := s.remove("ann", "x"); err == nil {
		t.Error("ann closes bob's session")
	}
	if k, err := s.remove("bob", "x"); err != nil || k.key != key {
		t.Error(k, err)
	}
	if got := len(s.of("ann")); got != maxPrincipalSessions {
		t.Errorf("ann has %d", got)
	}
	for _, bad := range []string{"../x", ".x", "a b", "é"} {
		if _, err := s.reserve("cy", bad); err == nil {
			t.Errorf("a session is called %q", bad)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.reserve("cy", "y"); err == nil {
		t.Error("a closed door keeps a session")
	}
}

func TestSessionTexts(t *testing.T) {
	out := func(s string) paddock.SessionChunk { return paddock.SessionChunk{Data: s} }
	err := func(s string) paddock.SessionChunk { return paddock.SessionChunk{Data: s, Stderr: true} }
	plan := sessionPlan{opts: paddock.SessionOptions{MaxLines: 2, MaxBytes: 10, CommandTimeout: 1500e6}}
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
		if got := sessionText(&tt.r, plan); got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.r, got, tt.want)
		}
	}
}
