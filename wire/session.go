package wire

// Bounds of what is told of sessions. What exceeds one is an error when decoded.
const (
	// MaxSessionChunks is how many pieces the output of a command may have.
	MaxSessionChunks = 8192
	// MaxSessions is how many sessions there may be at a time.
	MaxSessions = 32
	// MaxSessionOutput is how much of a command's output may be asked for, in bytes.
	MaxSessionOutput = 2 << 20
)

// OpenSessionRequest starts a session: one shell that stays, and is given
// commands one at a time.
type OpenSessionRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	SessionID string `json:"session_id"`
	// ShellCommand is the shell and its arguments. Default: /bin/bash, or
	// /bin/sh where there is no bash. An empty list is an error.
	ShellCommand []string `json:"shell_command"`
	// Cwd is where it begins: absolute below /workspace, or relative to it.
	// Default: /workspace.
	Cwd Path `json:"cwd,omitempty"`
	// Env is laid over the agent's base environment.
	Env map[string]string `json:"env,omitempty"`
	// StartupCommands run first, in each shell that is started; one that fails
	// ends the session. ShutdownCommands run when it is closed.
	StartupCommands  []string `json:"startup_commands,omitempty"`
	ShutdownCommands []string `json:"shutdown_commands,omitempty"`
	// Timeouts are in seconds, from above 0: of each command (30), of the
	// shell's start and of each startup command (30), and of its end (10).
	CommandTimeout     float64 `json:"command_timeout,omitempty"`
	StartupTimeout     float64 `json:"startup_timeout,omitempty"`
	TerminationTimeout float64 `json:"termination_timeout,omitempty"`
	// MaxOutputLines and MaxOutputBytes bound what is kept of a command's
	// output, both streams together; the rest is counted. Defaults: 100 lines,
	// 1 MiB. At most 2 MiB.
	MaxOutputLines int64 `json:"max_output_lines,omitempty"`
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
	// Limits are set in the shell, and inherited by all it starts.
	Limits *Limits `json:"limits,omitempty"`
	// RedactValues are replaced by [REDACTED] in all that the shell prints.
	RedactValues []string `json:"redact_values,omitempty"`
	// Redaction are rules for more that is replaced.
	Redaction RedactRules `json:"redaction,omitempty"`
}

func (q *OpenSessionRequest) setDefaults() {
	q.Cwd, q.CommandTimeout, q.StartupTimeout, q.TerminationTimeout, q.MaxOutputLines = workspaceRoot, 30, 30, 10, 100
}

func (*OpenSessionRequest) envOwner() string { return "session" }

// Redactions gives the values and the rules for what no answer to the request may tell.
func (q *OpenSessionRequest) Redactions() ([]string, RedactRules) {
	return q.RedactValues, q.Redaction
}

// RunSessionRequest runs a command text in a session's shell.
type RunSessionRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	SessionID string `json:"session_id"`
	Command   string `json:"command"`
	// Stdin is the command's whole standard input, in Encoding. Default: empty.
	Stdin string `json:"stdin,omitempty"`
	// Timeout, MaxOutputLines and MaxOutputBytes take the place of the
	// session's own where they are not 0.
	Timeout        float64 `json:"timeout,omitempty"`
	MaxOutputLines int64   `json:"max_output_lines,omitempty"`
	MaxOutputBytes int64   `json:"max_output_bytes,omitempty"`
	// MaxTailBytes has the end of the output kept too, where the bounds above have
	// cut it: so many bytes of both streams, at most 2 MiB. Default: none.
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
	SessionID    string   `json:"session_id"`
	ShellCommand []string `json:"shell_command"`
	Cwd          Path     `json:"cwd"`   // of the shell, after the last command
	State        string   `json:"state"` // ready, busy or ended
	StartedAt    float64  `json:"started_at"`
	Commands     int64    `json:"commands"` // that were run, startup commands aside
	Restarts     int64    `json:"restarts"`
	ExitCode     *int     `json:"exit_code"` // of a shell that has ended
}

// SessionChunk is a piece of output.
type SessionChunk struct {
	Stream string `json:"stream"` // stdout or stderr
	Data   string `json:"data"`
}

// SessionChunks are a command's output, of at most MaxSessionChunks pieces.
type SessionChunks []SessionChunk

// RunSessionResult is how a command in a session ended.
type RunSessionResult struct {
	SessionID string `json:"session_id"`
	// Output is what was printed, in the order in which it arrived: exact for
	// each stream, and between the two as close as two pipes can tell.
	Output   SessionChunks `json:"output"`
	Encoding string        `json:"encoding,omitempty"`
	// ExitCode is the command's status, -N where the shell itself ended by
	// signal N, and 124 where the command timed out.
	ExitCode    int    `json:"exit_code"`
	Signal      string `json:"signal,omitempty"`
	TimedOut    bool   `json:"timed_out"`
	Interrupted bool   `json:"interrupted"`
	DurationUS  int64  `json:"duration_us"`
	// CPU times are of the shell and what it started, from one command's end
	// to the next one's.
	UserCPUMS   int64 `json:"user_cpu_ms"`
	SystemCPUMS int64 `json:"system_cpu_ms"`
	// PeakMemoryBytes is the most memory since the shell's start: of its whole
	// tree ("cgroup"), or of the shell's own process ("vmhwm").
	PeakMemoryBytes  int64  `json:"peak_memory_bytes"`
	PeakMemorySource string `json:"peak_memory_source,omitempty"`
	// OOMKilled says that something of the session's tree was killed for want of
	// memory, Denials what the tree was refused, since the command before; as for
	// [ExecResult], and never complete.
	OOMKilled bool    `json:"oom_killed"`
	Denials   Denials `json:"denials,omitempty"`
	// What was printed, kept or not, and whether all of it was kept.
	TotalLines  int64 `json:"total_lines"`
	TotalBytes  int64 `json:"total_bytes"`
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// RedactionMatches counts what rules have replaced; Blocked names the rule
	// that ended the output, if one did, all of which is then replaced.
	RedactionMatches RedactCounts `json:"redaction_matches,omitempty"`
	Blocked          string       `json:"blocked,omitempty"`
	TruncatedByLines bool         `json:"truncated_by_lines"`
	TruncatedByBytes bool         `json:"truncated_by_bytes"`
	// Tail is the end of what the bounds have cut, where it was asked for, and
	// OmittedBytes counts what is missing between Output and it.
	Tail         SessionChunks `json:"tail,omitempty"`
	OmittedBytes int64         `json:"omitted_bytes,omitempty"`
	// Late is what background jobs printed between the command before and this
	// one, of LateBytes in all; at most 64 KiB of it are kept.
	Late      SessionChunks `json:"late,omitempty"`
	LateBytes int64         `json:"late_bytes,omitempty"`
	// Jobs counts processes in the background that live on.
	Jobs int `json:"jobs"`
	// SurvivorsKilled counts processes that were killed, because the command
	// was ended or the shell was; DeathProved says that none of those is left.
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`
	// StateKept says that the shell lives with all its state; ShellEnded that
	// it does not live any more; Restarted that a new one took its place.
	StateKept  bool   `json:"state_kept"`
	ShellEnded bool   `json:"shell_ended"`
	Restarted  bool   `json:"restarted"`
	Cwd        Path   `json:"cwd"`
	Note       string `json:"note,omitempty"` // for people, where something is out of the ordinary
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

// ListSessionsResult is every session, sorted by id.
type ListSessionsResult struct {
	Sessions SessionList `json:"sessions"`
}
