package wire

import (
	"unicode/utf8"
)

// ExecRequest asks the agent to run one command.
type ExecRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`

	// Command is a string for /bin/sh -lc; Argv is a list that runs without a
	// shell. Only one of them may be given; without either, an empty Command
	// runs. An Argv[0] without a slash is looked up in the PATH of the
	// command's own environment.
	Command OSString  `json:"command,omitempty"`
	Argv    OSStrings `json:"argv,omitempty"`
	// Cwd is the working directory, relative to the workspace or absolute.
	// Default: the workspace.
	Cwd OSString `json:"cwd,omitempty"`
	// Env is added to the agent's base environment, and replaces variables in
	// it. Its names must match [A-Za-z_][A-Za-z0-9_]{0,63}. With ClearEnv, Env
	// is the whole environment, and any name that the kernel accepts is valid.
	Env      OSEnv `json:"env,omitempty"`
	ClearEnv bool  `json:"clear_env,omitempty"`
	// SecretEnv names secrets of set_secrets, at most MaxSecretEnv, that become variables;
	// Env replaces them. Their values are redacted for as long as the command runs.
	SecretEnv []string `json:"secret_env,omitempty"`
	// Stdin is the whole standard input of a command that is not streamed.
	// Encoding "base64" applies to it, too. Default: empty.
	Stdin string `json:"stdin,omitempty"`
	// TimeoutSeconds is how long the command may run; then its whole tree is
	// killed. Absent: 30 for a Command that is not streamed, else none. It must
	// not be negative.
	TimeoutSeconds *float64 `json:"timeout_seconds,omitempty"`
	// MaxOutputBytes bounds each captured stream: its head and its tail are
	// kept and the middle is only counted. Absent or 0: 1 MiB for captured
	// output, no bound for streamed output.
	MaxOutputBytes int64 `json:"max_output_bytes,omitempty"`
	// Limits are set in the command before it is executed.
	Limits *Limits `json:"limits,omitempty"`
	// TTY gives the command a terminal that is made inside. It needs Stream,
	// and the terminal's output arrives on the stdout stream.
	TTY *TTY `json:"tty,omitempty"`
	// Stream switches the connection to frames after the answer line.
	Stream bool `json:"stream,omitempty"`
	// CountStdin asks for how much of the standard input of a streamed command was read. It
	// excludes TTY and Detach. A Client sets it itself.
	CountStdin bool `json:"count_stdin,omitempty"`
	// Pass names the streams, ["stdout"] or ["stdout", "stderr"], for which
	// descriptors of pipes come with the request's first byte, over a Unix
	// socket. The command gets them as they are, and no frames carry those
	// streams. It needs Stream, and excludes TTY and MaxOutputBytes. A Client
	// sets it itself.
	Pass []string `json:"pass,omitempty"`
	// RedactValues are replaced by [REDACTED] in the output, even if one is
	// split over several reads. They exclude Pass, because the agent does not
	// see those streams.
	RedactValues []string `json:"redact_values,omitempty"`
	// Redaction holds rules for further text to replace. They exclude Pass, too.
	Redaction RedactRules `json:"redaction,omitempty"`
	// Detach lets processes that the command leaves behind live on.
	Detach bool `json:"detach,omitempty"`
	// Encoding of Stdin and of the captured output: "" (text, invalid UTF-8
	// becomes U+FFFD) or "base64".
	Encoding string `json:"encoding,omitempty"`
}

// envOwner names the request in errors about its environment.
func (*ExecRequest) envOwner() string { return "exec" }

// checkUTF8 refuses texts that JSON cannot carry: encoding would replace bytes in silence.
func checkUTF8(field string, texts ...string) error {
	for _, text := range texts {
		if !utf8.ValidString(text) {
			e := Errorf(CodeBadRequest, "cannot send the request: %s is not valid UTF-8", field)
			e.Object = field
			return e
		}
	}
	return nil
}

// Limits are resource limits of one command; each process that it starts
// inherits them. 0 means: no limit beyond the sandbox's own.
type Limits struct {
	CPUSeconds    uint64 `json:"cpu_seconds,omitempty"`     // of each process: then SIGXCPU, and SIGKILL a second later
	FileSizeBytes uint64 `json:"file_size_bytes,omitempty"` // RLIMIT_FSIZE
	OpenFiles     uint64 `json:"open_files,omitempty"`      // RLIMIT_NOFILE
	Processes     uint64 `json:"processes,omitempty"`       // RLIMIT_NPROC
}

// TTY describes the terminal that a command gets.
type TTY struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// ExecStarted is the answer line of a streamed exec whose command runs.
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
	// ExitCode is the exit status, -N if signal N ended the command, and 124 if
	// it timed out.
	ExitCode   int    `json:"exit_code"`
	Signal     string `json:"signal,omitempty"` // "SIGKILL", …
	TimedOut   bool   `json:"timed_out"`
	OOMKilled  bool   `json:"oom_killed"`
	DurationMS int64  `json:"duration_ms"`

	StdoutBytes     int64 `json:"stdout_bytes"` // everything that was printed, kept or not
	StderrBytes     int64 `json:"stderr_bytes"`
	StdoutTruncated bool  `json:"stdout_truncated"`
	StderrTruncated bool  `json:"stderr_truncated"`

	// CPU time is that of the command's whole tree if a control group counts it,
	// else that of the command and the children it waited for.
	UserCPUMS   int64 `json:"user_cpu_ms"`
	SystemCPUMS int64 `json:"system_cpu_ms"`
	// PeakMemoryBytes is the most that the whole tree used at a time if
	// PeakMemorySource is "cgroup". Else it is the largest resident set seen,
	// and the source is "ru_maxrss", "vmhwm_sampled", or "" if unknown.
	PeakMemoryBytes  int64  `json:"peak_memory_bytes"`
	PeakMemorySource string `json:"peak_memory_source,omitempty"`
	// A control group counts these for the whole tree: how long it waited for
	// processor time because of a limit, the most processes and threads at a
	// time, and what block devices read and wrote for it.
	ThrottledMS   int64 `json:"throttled_ms,omitempty"`
	ProcessesPeak int64 `json:"processes_peak,omitempty"`
	IOReadBytes   int64 `json:"io_read_bytes,omitempty"`
	IOWriteBytes  int64 `json:"io_write_bytes,omitempty"`

	// Survivors counts processes of the command's tree that still ran after it
	// had exited or timed out; SurvivorsKilled counts those of them that were
	// killed. DeathProved says that every process was examined and none of the
	// tree is left.
	Survivors       int  `json:"survivors"`
	SurvivorsKilled int  `json:"survivors_killed"`
	DeathProved     bool `json:"death_proved"`

	// RedactionMatches counts the replacements of each rule; Blocked names the
	// rule that ended the output, if one did.
	RedactionMatches RedactCounts `json:"redaction_matches,omitempty"`
	Blocked          string       `json:"blocked,omitempty"`

	Denials         Denials `json:"denials,omitempty"`
	DenialsComplete bool    `json:"denials_complete"`
}

// count is a number in a result, which must not be negative.
type count struct {
	name  string
	value int64
}

// checkResult checks the numbers of a result that came over the wire.
func checkResult(exitCode int, counts ...count) error {
	for _, c := range counts {
		if c.value < 0 {
			return Errorf(CodeInternal, "cannot use the agent's result: %s is negative", c.name)
		}
	}
	if exitCode < -64 || exitCode > 255 {
		return Errorf(CodeInternal, "cannot use the agent's result: exit_code %d is out of range", exitCode)
	}
	return nil
}

// fromPeer checks a result that came over the wire and makes its texts, apart
// from the command's own output, safe to print.
func (r *ExecResult) fromPeer() error {
	err := checkResult(r.ExitCode,
		count{"duration_ms", r.DurationMS}, count{"stdout_bytes", r.StdoutBytes}, count{"stderr_bytes", r.StderrBytes},
		count{"user_cpu_ms", r.UserCPUMS}, count{"system_cpu_ms", r.SystemCPUMS}, count{"peak_memory_bytes", r.PeakMemoryBytes},
		count{"throttled_ms", r.ThrottledMS}, count{"processes_peak", r.ProcessesPeak},
		count{"io_read_bytes", r.IOReadBytes}, count{"io_write_bytes", r.IOWriteBytes},
		count{"survivors", int64(r.Survivors)}, count{"survivors_killed", int64(r.SurvivorsKilled)},
		count{"survivors that were not killed", int64(r.Survivors) - int64(r.SurvivorsKilled)})
	if err != nil {
		return err
	}
	r.ID = printable(r.ID)
	r.Signal = printable(r.Signal)
	r.PeakMemorySource = printable(r.PeakMemorySource)
	r.Blocked = printable(r.Blocked)
	r.Denials.fromPeer()
	return nil
}

// Denial is something that a command was refused: which layer refused it, by
// which rule, and for which object.
type Denial struct {
	Layer  string `json:"layer"` // seccomp, landlock, mount, network, limit, command, privilege
	Rule   string `json:"rule"`
	Object string `json:"object,omitempty"`
	Hint   string `json:"hint,omitempty"`
	Guess  bool   `json:"guess,omitempty"` // inferred, not reported by the kernel
	Count  int    `json:"count,omitempty"` // how often, if more than once
}

// MaxDenials is how many denials a result may carry. More are an error when
// decoded: a denial of three bytes takes 72 in memory.
const MaxDenials = 1024

// Denials is a list of at most MaxDenials denials.
type Denials []Denial

// UnmarshalJSON reads the list and stops at MaxDenials.
func (d *Denials) UnmarshalJSON(data []byte) error {
	return decodeList(data, (*[]Denial)(d), MaxDenials, "denials")
}

// fromPeer makes denials that came over the wire safe to print.
func (d Denials) fromPeer() {
	for i := range d {
		d := &d[i]
		d.Layer, d.Rule = printable(d.Layer), printable(d.Rule)
		d.Object, d.Hint = printable(d.Object), printable(d.Hint)
		d.Count = max(d.Count, 0)
	}
}

// Control is the payload of a frame on StreamControl, as JSON.
type Control struct {
	// Type is, from a client: "resize", "signal", "close_stdin"; from an
	// agent: "stdin_ack", "exit", "error". Over a connection to a port, either side
	// sends "ack", "end" and "reset".
	Type   string      `json:"type"`
	Rows   uint16      `json:"rows,omitempty"`   // resize
	Cols   uint16      `json:"cols,omitempty"`   // resize
	Signal string      `json:"signal,omitempty"` // signal: "INT" or "SIGINT", …
	Group  bool        `json:"group,omitempty"`  // signal: for the command's process group, not for it alone
	Bytes  int         `json:"bytes,omitempty"`  // stdin_ack, ack: bytes that were taken
	Read   int64       `json:"read,omitempty"`   // exit, with count_stdin: bytes of standard input that were read
	Result *ExecResult `json:"result,omitempty"` // exit
	Error  *Error      `json:"error,omitempty"`  // error, reset
}
