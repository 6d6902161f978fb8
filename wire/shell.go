package wire

// OpenShellRequest starts an interactive shell on a terminal.
type OpenShellRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ShellID   string `json:"shell_id"`
	// Cwd is absolute below /workspace, or relative to it. Default: /workspace.
	Cwd  OSString `json:"cwd,omitempty"`
	Cols int64    `json:"cols,omitempty"` // default 120
	Rows int64    `json:"rows,omitempty"` // default 30
	// Env is added to the agent's base environment, and replaces variables in it.
	Env OSEnv `json:"env,omitempty"`
	// SecretEnv names secrets of set_secrets, at most MaxSecretEnv, that become variables;
	// Env replaces them. Their values are redacted for as long as the shell runs.
	SecretEnv []string `json:"secret_env,omitempty"`
	// RedactValues are replaced by [REDACTED] in everything that the shell prints.
	RedactValues []string `json:"redact_values,omitempty"`
	// Redaction holds rules for further text to replace.
	Redaction RedactRules `json:"redaction,omitempty"`
}

func (q *OpenShellRequest) setDefaults() { q.Cwd, q.Cols, q.Rows = workspaceRoot, 120, 30 }

func (*OpenShellRequest) envOwner() string { return "shell" }

// ShellRequest names a shell, for close_shell.
type ShellRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ShellID   string `json:"shell_id"`
}

// ReadShellRequest asks for the output of a shell.
type ReadShellRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ShellID   string `json:"shell_id"`
	// Cursor counts characters from the shell's first.
	Cursor int64 `json:"cursor,omitempty"`
	// MaxChars bounds the answer. Default: 65536.
	MaxChars int64 `json:"max_chars,omitempty"`
	// WaitMS is how long the answer may wait for output beyond Cursor, or the
	// shell's end, in milliseconds. Default: 0.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

func (q *ReadShellRequest) setDefaults() { q.MaxChars = 65536 }

// WriteShellRequest types text into a shell.
type WriteShellRequest struct {
	Action        string `json:"action"`
	KeepAlive     bool   `json:"keep_alive,omitempty"`
	ShellID       string `json:"shell_id"`
	Input         string `json:"input,omitempty"`
	AppendNewline *bool  `json:"append_newline,omitempty"` // default: true
}

// SignalShellRequest sends a signal to the job in the foreground.
type SignalShellRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ShellID   string `json:"shell_id"`
	Signal    string `json:"signal,omitempty"` // HUP, INT (the default), TERM or KILL
}

func (q *SignalShellRequest) setDefaults() { q.Signal = "INT" }

// ResizeShellRequest changes the size of a shell's terminal.
type ResizeShellRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ShellID   string `json:"shell_id"`
	Cols      int64  `json:"cols"`
	Rows      int64  `json:"rows"`
}

// Shell is the summary of a shell.
type Shell struct {
	ShellID   string   `json:"shell_id"`
	Cwd       OSString `json:"cwd"`
	Cols      int64    `json:"cols"`
	Rows      int64    `json:"rows"`
	State     string   `json:"state"`      // running or stopped
	StartedAt float64  `json:"started_at"` // seconds since 1970
	EndedAt   *float64 `json:"ended_at"`
	ExitCode  *int     `json:"exit_code"` // -N if signal N ended it
	// RedactionMatches counts the replacements of each rule so far; Blocked
	// names the rule that ended the output, if one did.
	RedactionMatches RedactCounts `json:"redaction_matches,omitempty"`
	Blocked          string       `json:"blocked,omitempty"`
}

// ReadShellResult is a part of a shell's output, redacted.
type ReadShellResult struct {
	Shell
	Cursor     int64  `json:"cursor"` // of Output's first character
	NextCursor int64  `json:"next_cursor"`
	Output     string `json:"output"`
	Truncated  bool   `json:"truncated"` // there is more beyond NextCursor
	// DroppedChars counts the requested characters before Cursor that were dropped
	// to bound the agent's memory.
	DroppedChars int64 `json:"dropped_chars"`
}

// WriteShellResult says what was typed.
type WriteShellResult struct {
	Shell
	InputLength   int64 `json:"input_length"` // in characters, without the newline
	AppendNewline bool  `json:"append_newline"`
}

// SignalShellResult says what was sent.
type SignalShellResult struct {
	Shell
	Signal string `json:"signal"`
}

// CloseShellResult describes a shell that was closed.
type CloseShellResult struct {
	Shell
	Closed      bool `json:"closed"`
	Killed      int  `json:"survivors_killed"` // processes that outlived the shell's own end
	DeathProved bool `json:"death_proved"`
}

// ListShellsRequest asks for every shell.
type ListShellsRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
}

// ListShellsResult lists all shells, sorted by id.
type ListShellsResult struct {
	Shells []Shell `json:"shells"`
}
