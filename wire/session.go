package wire

import (
	"context"
	"encoding/base64"
	"math"
	"slices"
)

// Bounds of sessions. Anything over one of the first two is an error when decoded.
const (
	// MaxSessionChunks is how many pieces the output of a command may have.
	MaxSessionChunks = 8192
	// MaxSessions is how many sessions may be open at a time.
	MaxSessions = 32
	// MaxSessionOutput bounds the output of a command that may be requested, in bytes.
	MaxSessionOutput = 2 << 20
)

// OpenSessionRequest starts a session: one shell that stays open and runs commands
// one at a time.
type OpenSessionRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	SessionID string `json:"session_id"`
	// ShellCommand is the shell and its arguments. Default: /bin/bash, or
	// /bin/sh if there is no bash. An empty list is an error.
	ShellCommand OSStrings `json:"shell_command"`
	// Cwd is where the shell begins: absolute below /workspace, or relative to it.
	// Default: /workspace.
	Cwd OSString `json:"cwd,omitempty"`
	// Env is added to the agent's base environment, and replaces variables in it.
	Env OSEnv `json:"env,omitempty"`
	// SecretEnv names secrets of set_secrets, at most MaxSecretEnv, that become variables;
	// Env replaces them. Their values are redacted for as long as the session runs.
	SecretEnv []string `json:"secret_env,omitempty"`
	// StartupCommands run first in each shell that is started; if one fails, the
	// session ends. ShutdownCommands run when the session is closed.
	StartupCommands  OSStrings `json:"startup_commands,omitempty"`
	ShutdownCommands OSStrings `json:"shutdown_commands,omitempty"`
	// Timeouts are in seconds and must be above 0: of each command (default 30),
	// of the shell's start and each startup command (30), and of its end (10).
	CommandTimeout     float64 `json:"command_timeout,omitempty"`
	StartupTimeout     float64 `json:"startup_timeout,omitempty"`
	TerminationTimeout float64 `json:"termination_timeout,omitempty"`
	// MaxOutputLines and MaxOutputBytes bound how much of a command's output is
	// kept, both streams together; the rest is only counted. Defaults: 100
	// lines, 1 MiB. At most 2 MiB.
	MaxOutputLines int64 `json:"max_output_lines,omitempty"`
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
	// Limits are set in the shell; everything it starts inherits them.
	Limits *Limits `json:"limits,omitempty"`
	// RedactValues are replaced by [REDACTED] in everything that the shell prints.
	RedactValues []string `json:"redact_values,omitempty"`
	// Redaction holds rules for further text to replace.
	Redaction RedactRules `json:"redaction,omitempty"`
}

func (q *OpenSessionRequest) setDefaults() {
	q.Cwd, q.CommandTimeout, q.StartupTimeout, q.TerminationTimeout, q.MaxOutputLines = workspaceRoot, 30, 30, 10, 100
}

func (*OpenSessionRequest) envOwner() string { return "session" }

// Redactions returns the values and the rules for text that no answer to the
// request may contain.
func (q *OpenSessionRequest) Redactions() ([]string, RedactRules) {
	return q.RedactValues, q.Redaction
}

// RunSessionRequest runs a command text in a session's shell.
type RunSessionRequest struct {
	Action    string   `json:"action"`
	KeepAlive bool     `json:"keep_alive,omitempty"`
	SessionID string   `json:"session_id"`
	Command   OSString `json:"command"`
	// Stdin is the command's whole standard input, in Encoding. Default: empty.
	Stdin string `json:"stdin,omitempty"`
	// Timeout, MaxOutputLines and MaxOutputBytes replace the session's own
	// unless they are 0.
	Timeout        float64 `json:"timeout,omitempty"`
	MaxOutputLines int64   `json:"max_output_lines,omitempty"`
	MaxOutputBytes int64   `json:"max_output_bytes,omitempty"`
	// MaxTailBytes is how much of the end of the output is kept too if the bounds
	// above cut it, both streams together, at most 2 MiB. Default: none.
	MaxTailBytes int64 `json:"max_tail_bytes,omitempty"`
	// Encoding of Stdin and of the output: "" (text, invalid UTF-8 becomes
	// U+FFFD) or "base64".
	Encoding string `json:"encoding,omitempty"`
}

// SessionRequest names a session, for restart_session, interrupt_session and
// close_session.
type SessionRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	SessionID string `json:"session_id"`
}

// Session is the summary of a session.
type Session struct {
	SessionID    string    `json:"session_id"`
	ShellCommand OSStrings `json:"shell_command"`
	Cwd          OSString  `json:"cwd"`   // of the shell, after the last command
	State        string    `json:"state"` // ready, busy or ended
	StartedAt    float64   `json:"started_at"`
	Commands     int64     `json:"commands"` // that were run, not counting startup commands
	Restarts     int64     `json:"restarts"`
	ExitCode     *int      `json:"exit_code"` // of a shell that has ended, else null
	// Settings are for clients that have not opened it.
	Settings SessionSettings `json:"settings"`
}

// SessionSettings are the times of a session, in seconds, and the bounds of its output.
type SessionSettings struct {
	CommandTimeout float64 `json:"command_timeout"`
	// RestartTime is how long a new shell may take with the startup commands, and CloseTime the
	// end with the shutdown commands.
	RestartTime    float64 `json:"restart_time"`
	CloseTime      float64 `json:"close_time"`
	MaxOutputLines int64   `json:"max_output_lines"`
	MaxOutputBytes int64   `json:"max_output_bytes"`
}

// fromPeer bounds settings that came over the wire.
func (s SessionSettings) fromPeer() SessionSettings {
	for _, t := range []*float64{&s.CommandTimeout, &s.RestartTime, &s.CloseTime} {
		if !(*t >= 0) { // NaN too
			*t = 0
		}
		*t = min(*t, math.MaxInt32)
	}
	s.MaxOutputLines, s.MaxOutputBytes = max(s.MaxOutputLines, 0), max(s.MaxOutputBytes, 0)
	return s
}

// SessionChunk is a piece of output.
type SessionChunk struct {
	Stream string `json:"stream"` // stdout or stderr
	Data   string `json:"data"`
}

// SessionChunks are a command's output, of at most MaxSessionChunks pieces.
type SessionChunks []SessionChunk

// UnmarshalJSON reads the list and stops at MaxSessionChunks.
func (s *SessionChunks) UnmarshalJSON(data []byte) error {
	return decodeList(data, (*[]SessionChunk)(s), MaxSessionChunks, "pieces of output")
}

// RunSessionResult is how a command in a session ended.
type RunSessionResult struct {
	SessionID string `json:"session_id"`
	// Output is what was printed, in the order in which it arrived. The order is
	// exact within each stream, and between the two as close as two pipes allow.
	Output   SessionChunks `json:"output"`
	Encoding string        `json:"encoding,omitempty"`
	// ExitCode is the command's status, -N if signal N ended the shell itself,
	// and 124 if the command timed out.
	ExitCode    int    `json:"exit_code"`
	Signal      string `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out"`
	Interrupted bool   `json:"interrupted"`
	DurationUS  int64  `json:"duration_us"`
	// CPU times are of the shell and everything it started, from the end of the
	// previous command to the end of this one.
	UserCPUMS   int64 `json:"user_cpu_ms"`
	SystemCPUMS int64 `json:"system_cpu_ms"`
	// PeakMemoryBytes is the most memory used since the shell's start: by its
	// whole tree ("cgroup"), or by the shell's own process ("vmhwm").
	PeakMemoryBytes  int64  `json:"peak_memory_bytes"`
	PeakMemorySource string `json:"peak_memory_source,omitempty"`
	// OOMKilled means that the kernel killed a process of the session's tree because
	// memory ran out; Denials lists refusals to the tree. Both cover the time since the
	// previous command, as in [ExecResult]. Denials is never complete.
	OOMKilled bool    `json:"oom_killed"`
	Denials   Denials `json:"denials,omitempty"`
	// The totals count all output, stored or not.
	TotalLines  int64 `json:"total_lines"`
	TotalBytes  int64 `json:"total_bytes"`
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// RedactionMatches counts the replacements of each rule; Blocked names the
	// rule that ended the output, if one did: all of it is then replaced.
	RedactionMatches RedactCounts `json:"redaction_matches,omitempty"`
	Blocked          string       `json:"blocked,omitempty"`
	TruncatedByLines bool         `json:"truncated_by_lines"`
	TruncatedByBytes bool         `json:"truncated_by_bytes"`
	// Tail is the end of the output that the bounds have cut, if it was
	// requested. OmittedBytes counts the bytes between Output and Tail.
	Tail         SessionChunks `json:"tail,omitempty"`
	OmittedBytes int64         `json:"omitted_bytes,omitempty"`
	// Late is the output of background jobs between the previous command and this
	// one. Of all LateBytes it has at most the first 64 KiB.
	Late      SessionChunks `json:"late,omitempty"`
	LateBytes int64         `json:"late_bytes,omitempty"`
	// Jobs counts processes that live on in the background.
	Jobs int `json:"jobs"`
	// SurvivorsKilled counts processes that were killed because the command or
	// the shell was ended; DeathProved says that none of those is left.
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`
	// StateKept says that the shell lives with all its state, ShellEnded that it
	// has ended, Restarted that it was killed and a new one took its place.
	StateKept  bool     `json:"state_kept"`
	ShellEnded bool     `json:"shell_ended"`
	Restarted  bool     `json:"restarted"`
	Cwd        OSString `json:"cwd"`
	Note       string   `json:"note,omitempty"` // for people, if something is unusual
}

// CloseSessionResult is a session at its end.
type CloseSessionResult struct {
	Session
	Closed      bool `json:"closed"`
	Killed      int  `json:"survivors_killed"`
	DeathProved bool `json:"death_proved"`
}

// InterruptSessionResult says whether there was a command to interrupt.
type InterruptSessionResult struct {
	SessionID   string `json:"session_id"`
	Interrupted bool   `json:"interrupted"`
}

// ListSessionsRequest asks for every session.
type ListSessionsRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
}

// SessionList is a list of sessions, of at most MaxSessions.
type SessionList []Session

// UnmarshalJSON reads the list and stops at MaxSessions.
func (s *SessionList) UnmarshalJSON(data []byte) error {
	return decodeList(data, (*[]Session)(s), MaxSessions, "sessions")
}

// ListSessionsResult is every session, sorted by id.
type ListSessionsResult struct {
	Sessions SessionList `json:"sessions"`
}

// OpenSession opens a session.
func (c *Client) OpenSession(ctx context.Context, q OpenSessionRequest) (Session, error) {
	r, err := Call(ctx, c, OpenSession, q)
	return r.fromPeer(), err
}

// RunSession runs a command in a session and returns how it ended. When ctx
// ends, the command is interrupted, and its result is lost.
func (c *Client) RunSession(ctx context.Context, q RunSessionRequest) (RunSessionResult, error) {
	k := &Kept{Client: c}
	defer k.Close()
	return k.RunSession(ctx, q)
}

// RunSession is [Client.RunSession] over the kept connection.
func (k *Kept) RunSession(ctx context.Context, q RunSessionRequest) (RunSessionResult, error) {
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
	s.SessionID, s.Cwd, s.State = printable(s.SessionID), OSString(printable(string(s.Cwd))), printable(s.State)
	s.Commands, s.Restarts, s.Settings = max(s.Commands, 0), max(s.Restarts, 0), s.Settings.fromPeer()
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
	err := checkResult(r.ExitCode,
		count{"duration_us", r.DurationUS}, count{"user_cpu_ms", r.UserCPUMS}, count{"system_cpu_ms", r.SystemCPUMS}, count{"peak_memory_bytes", r.PeakMemoryBytes},
		count{"total_lines", r.TotalLines}, count{"total_bytes", r.TotalBytes}, count{"stdout_bytes", r.StdoutBytes}, count{"stderr_bytes", r.StderrBytes},
		count{"late_bytes", r.LateBytes}, count{"omitted_bytes", r.OmittedBytes}, count{"jobs", int64(r.Jobs)}, count{"survivors_killed", int64(r.SurvivorsKilled)})
	if err != nil {
		return err
	}
	if r.Encoding != encoding {
		return Errorf(CodeInternal, "cannot use the agent's result: it has another encoding than was requested")
	}
	r.Blocked = printable(r.Blocked)
	r.Denials.fromPeer()
	for _, c := range slices.Concat(r.Output, r.Tail, r.Late) {
		if c.Stream != "stdout" && c.Stream != "stderr" {
			return Errorf(CodeInternal, "cannot use the agent's result: unknown stream %q", printable(c.Stream))
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
	r.Cwd, r.Note = OSString(printable(string(r.Cwd))), printable(r.Note)
	return nil
}
