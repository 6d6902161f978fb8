package wire

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"
)

// UnmarshalJSON reads the list and stops at MaxSessionChunks.
func (s *SessionChunks) UnmarshalJSON(data []byte) error {
	return decodeList(data, (*[]SessionChunk)(s), MaxSessionChunks, "pieces of output")
}

// UnmarshalJSON reads the list and stops at MaxSessions.
func (s *SessionList) UnmarshalJSON(data []byte) error {
	return decodeList(data, (*[]Session)(s), MaxSessions, "sessions")
}

// OpenSession opens a session.
func (c *Client) OpenSession(ctx context.Context, q OpenSessionRequest) (Session, error) {
	for field, texts := range map[string][]string{
		"shell_command": q.ShellCommand, "startup_commands": q.StartupCommands, "shutdown_commands": q.ShutdownCommands,
		"env": slices.Concat(slices.Collect(maps.Keys(q.Env)), slices.Collect(maps.Values(q.Env))),
	} {
		if err := checkUTF8(field, texts...); err != nil {
			return Session{}, err
		}
	}
	r, err := Call(ctx, c, OpenSession, q)
	return r.fromPeer(), err
}

// RunSession runs a command in a session and returns how it ended. When ctx
// ends, the command is interrupted, and nobody is told how.
func (c *Client) RunSession(ctx context.Context, q RunSessionRequest) (RunSessionResult, error) {
	k := &Kept{Client: c}
	defer k.Close()
	return k.RunSession(ctx, q)
}

// RunSession is that of a [Client], over the kept connection.
func (k *Kept) RunSession(ctx context.Context, q RunSessionRequest) (RunSessionResult, error) {
	if err := checkUTF8("command", q.Command); err != nil {
		return RunSessionResult{}, err
	}
	if err := checkUTF8("stdin", q.Stdin); err != nil {
		return RunSessionResult{}, err
	}
	r, err := CallKept(ctx, k, RunSession, q)
	if err == nil {
		err = r.fromPeer(q.Encoding)
	}
	if err != nil {
		return RunSessionResult{}, err
	}
	return r, nil
}

// ListSessions lists the sessions that are open.
func (c *Client) ListSessions(ctx context.Context) ([]Session, error) {
	r, err := Call(ctx, c, ListSessions, ListSessionsRequest{})
	for i := range r.Sessions {
		r.Sessions[i] = r.Sessions[i].fromPeer()
	}
	return r.Sessions, err
}

// CloseSession ends a session.
func (c *Client) CloseSession(ctx context.Context, id string) (CloseSessionResult, error) {
	r, err := Call(ctx, c, CloseSession, SessionRequest{SessionID: id})
	r.Session, r.Killed = r.Session.fromPeer(), max(r.Killed, 0)
	return r, err
}

// RestartSession gives a session a new shell.
func (c *Client) RestartSession(ctx context.Context, id string) (Session, error) {
	r, err := Call(ctx, c, RestartSession, SessionRequest{SessionID: id})
	return r.fromPeer(), err
}

// fromPeer makes a summary that came over the wire safe to act on and to print.
func (s Session) fromPeer() Session {
	s.SessionID, s.Cwd, s.State = printable(s.SessionID), Path(printable(string(s.Cwd))), printable(s.State)
	s.Commands, s.Restarts = max(s.Commands, 0), max(s.Restarts, 0)
	s.ShellCommand = s.ShellCommand[:min(len(s.ShellCommand), 64)]
	for i, word := range s.ShellCommand {
		s.ShellCommand[i] = printable(word)
	}
	if s.ExitCode != nil && (*s.ExitCode < -64 || *s.ExitCode > 255) {
		s.ExitCode = nil
	}
	return s
}

// fromPeer checks a result that came over the wire and makes its texts, apart
// from the command's own output, safe to print.
func (r *RunSessionResult) fromPeer(encoding string) error {
	for name, count := range map[string]int64{
		"duration_us": r.DurationUS, "user_cpu_ms": r.UserCPUMS, "system_cpu_ms": r.SystemCPUMS, "peak_memory_bytes": r.PeakMemoryBytes,
		"total_lines": r.TotalLines, "total_bytes": r.TotalBytes, "stdout_bytes": r.StdoutBytes, "stderr_bytes": r.StderrBytes,
		"late_bytes": r.LateBytes, "omitted_bytes": r.OmittedBytes, "jobs": int64(r.Jobs), "survivors_killed": int64(r.SurvivorsKilled),
	} {
		if count < 0 {
			return Errorf(CodeInternal, "cannot use the agent's result: %s is negative", name)
		}
	}
	if r.ExitCode < -64 || r.ExitCode > 255 {
		return Errorf(CodeInternal, "cannot use the agent's result: exit_code %d is out of range", r.ExitCode)
	}
	if r.Encoding != encoding {
		return Errorf(CodeInternal, "cannot use the agent's result: its encoding is another than was asked for")
	}
	r.Blocked = printable(r.Blocked)
	r.Denials.fromPeer()
	for _, c := range slices.Concat(r.Output, r.Tail, r.Late) {
		if c.Stream != "stdout" && c.Stream != "stderr" {
			return Errorf(CodeInternal, "cannot use the agent's result: there is no such stream")
		}
	}
	if encoding == "base64" {
		for _, c := range slices.Concat(r.Output, r.Tail) {
			if _, err := base64.StdEncoding.DecodeString(c.Data); err != nil {
				return Errorf(CodeInternal, "cannot use the agent's result: its output is not base64")
			}
		}
	}
	r.SessionID, r.Signal, r.PeakMemorySource = printable(r.SessionID), printable(r.Signal), printable(r.PeakMemorySource)
	r.Cwd, r.Note = Path(printable(string(r.Cwd))), printable(r.Note)
	return nil
}
