package wire

// ExecRequest asks the agent to run one command.
type ExecRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`

	// Command is a string for /bin/sh -lc; Argv is a list that runs without a
	// shell. Not both are given; where neither is, an empty Command runs. An
	// Argv[0] without a slash is looked up in the PATH of the command's own
	// environment.
	Command string   `json:"command,omitempty"`
	Argv    []string `json:"argv,omitempty"`
	// Cwd is the working directory, relative to the workspace or absolute.
	// Default: the workspace.
	Cwd string `json:"cwd,omitempty"`
	// Env is laid over the agent's base environment. Its names are of the
	// portable kind, [A-Za-z_][A-Za-z0-9_]{0,63}. Where ClearEnv is set, Env is
	// the whole environment, with any names that a program can be given.
	Env      map[string]string `json:"env,omitempty"`
	ClearEnv bool              `json:"clear_env,omitempty"`
	// Stdin is the whole standard input of a command that is not streamed.
	// Encoding "base64" applies to it too. Default: empty.
	Stdin string `json:"stdin,omitempty"`
	// TimeoutSeconds ends the command's whole tree when it has passed.
	// Absent: 30 for a Command that is not streamed, else none. It must not
	// be negative.
	TimeoutSeconds *float64 `json:"timeout_seconds,omitempty"`
	// MaxOutputBytes bounds each captured stream: its head and its tail are
	// kept and the middle is counted. Absent or 0: 1 MiB for captured
	// results; streams are unbounded.
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
	// Limits are set in the command before it is executed.
	Limits *Limits `json:"limits,omitempty"`
	// TTY gives the command a terminal made inside; it needs Stream, and its
	// output arrives on the stdout stream.
	TTY *TTY `json:"tty,omitempty"`
	// Stream switches the connection to frames after the answer line.
	Stream bool `json:"stream,omitempty"`
	// Pass names the streams, ["stdout"] or ["stdout", "stderr"], for which
	// descriptors of pipes come with the request's first byte, over a Unix
	// socket. The command gets them as they are, and no frames carry those
	// streams. It needs Stream, and neither TTY nor MaxOutputBytes. A Client
	// decides about it itself.
	Pass []string `json:"pass,omitempty"`
	// RedactValues are replaced by [REDACTED] in the output, also where one is
	// split over several reads. They go with Pass no more than secrets that
	// the agent has installed do: it does not see those streams.
	RedactValues []string `json:"redact_values,omitempty"`
	// Redaction are rules for more that is replaced. As RedactValues, they do
	// not go with Pass.
	Redaction RedactRules `json:"redaction,omitempty"`
	// Detach lets processes that the command leaves behind live on.
	Detach bool `json:"detach,omitempty"`
	// Encoding of Stdin and of the captured output: "" (text, invalid UTF-8
	// becomes U+FFFD) or "base64".
	Encoding string `json:"encoding,omitempty"`
}

// Limits are resource limits of one command; each process it starts inherits
// them. 0 means: no limit beyond the sandbox's own.
type Limits struct {
	CPUSeconds    uint64 `json:"cpu_seconds,omitempty"`     // of each process: SIGXCPU then, SIGKILL a second later
	FileSizeBytes uint64 `json:"file_size_bytes,omitempty"` // RLIMIT_FSIZE
	OpenFiles     uint64 `json:"open_files,omitempty"`      // RLIMIT_NOFILE
	Processes     uint64 `json:"processes,omitempty"`       // RLIMIT_NPROC
}

// TTY describes the terminal that a command gets.
type TTY struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// ExecStarted is the answer line of a streamed exec: the command runs.
type ExecStarted struct {
	ID          string `json:"id"`
	Streaming   bool   `json:"streaming"`
	StdinWindow int    `json:"stdin_window"`
}

// ExecResult is how a command ended. The text fields hold captured output and
// are empty for a streamed exec.
type ExecResult struct {
	ID       string `json:"id,omitempty"`
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Encoding string `json:"encoding,omitempty"`
	// ExitCode is the exit status, -N where signal N ended the command, and
	// 124 where it timed out.
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"` // "SIGKILL", …
	TimedOut   bool   `json:"timed_out"`
	OOMKilled  bool   `json:"oom_killed"`
	DurationMS int64  `json:"duration_ms"`

	StdoutBytes     int64 `json:"stdout_bytes"` // all that was printed, kept or not
	StderrBytes     int64 `json:"stderr_bytes"`
	StdoutTruncated bool  `json:"stdout_truncated"`
	StderrTruncated bool  `json:"stderr_truncated"`

	// CPU time is of the command's whole tree where a control group counts it,
	// else of the command and the children it waited for.
	UserCPUMS   int64 `json:"user_cpu_ms"`
	SystemCPUMS int64 `json:"system_cpu_ms"`
	// PeakMemoryBytes is the most that the whole tree used at a time, where
	// PeakMemorySource is "cgroup"; else the largest resident set seen, with
	// the sources "ru_maxrss", "vmhwm_sampled" or "" for not known.
	PeakMemoryBytes  int64  `json:"peak_memory_bytes"`
	PeakMemorySource string `json:"peak_memory_source,omitempty"`
	// What a control group counts of the whole tree: how long it waited for
	// processor time because of a limit, the most processes and threads at a
	// time, and what block devices read and wrote for it.
	ThrottledMS   int64 `json:"throttled_ms,omitempty"`
	ProcessesPeak int64 `json:"processes_peak,omitempty"`
	IOReadBytes   int64 `json:"io_read_bytes,omitempty"`
	IOWriteBytes  int64 `json:"io_write_bytes,omitempty"`

	// Survivors counts processes of the command's tree that still ran when it
	// had exited or its time was up; SurvivorsKilled those of them that were
	// killed. DeathProved says that none is left, by a look at every process.
	Survivors       int  `json:"survivors"`
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`

	// RedactionMatches counts what rules have replaced; Blocked names the rule
	// that ended the output, if one did.
	RedactionMatches RedactCounts `json:"redaction_matches,omitempty"`
	Blocked          string       `json:"blocked,omitempty"`

	Denials         Denials `json:"denials,omitempty"`
	DenialsComplete bool    `json:"denials_complete"`
}

// Denial is a refusal: which layer, which rule, which object.
type Denial struct {
	Layer  string `json:"layer"` // seccomp, landlock, mount, network, limit, command, privilege
	Rule   string `json:"rule"`
	Object string `json:"object,omitempty"`
	Hint   string `json:"hint,omitempty"`
	Guess  bool   `json:"guess,omitempty"` // inferred, not reported by the kernel
	Count  int    `json:"count,omitempty"` // how often, where it was more than once
}

// Control is the payload of a frame on StreamControl, as JSON.
type Control struct {
	// Type is, from a client: "resize", "signal", "close_stdin"; from an
	// agent: "stdin_ack", "exit", "error".
	Type   string      `json:"type"`
	Rows   uint16      `json:"rows,omitempty"`   // resize
	Cols   uint16      `json:"cols,omitempty"`   // resize
	Signal string      `json:"signal,omitempty"` // signal: "INT" or "SIGINT", …
	Bytes  int         `json:"bytes,omitempty"`  // stdin_ack: standard input the command has taken
	Result *ExecResult `json:"result,omitempty"` // exit
	Error  *Error      `json:"error,omitempty"`  // error
}
