package wire

import (
	"cmp"
	"context"
)

// Bounds of execs in the background, and of reading what they and services print.
const (
	// MaxBackgroundStdin bounds the standard input of one, in bytes.
	MaxBackgroundStdin = 1 << 20
	// MaxStreamRead is the most of each stream that a read can ask for, in bytes.
	MaxStreamRead = 1 << 20
	// MaxReadWaitMS is the longest that a read can wait, in milliseconds.
	MaxReadWaitMS = 60_000

	defaultStreamRead = 256 << 10
)

// ExecIDRequest names an exec that was started in the background, for kill_exec.
type ExecIDRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ID        string `json:"id"`
}

// ReadExecRequest asks for the output of an exec in the background.
type ReadExecRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ID        string `json:"id"`
	// StdoutCursor and StderrCursor count bytes from the first of each stream.
	StdoutCursor int64 `json:"stdout_cursor,omitempty"`
	StderrCursor int64 `json:"stderr_cursor,omitempty"`
	// MaxBytes bounds each stream in the answer. Default: 262144; at most MaxStreamRead.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// WaitMS is how long the answer may wait for output beyond one of the cursors, or
	// for the end, in milliseconds. Default: 0; at most MaxReadWaitMS.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

func (q *ReadExecRequest) setDefaults() { q.MaxBytes = defaultStreamRead }

// SignalExecRequest sends a signal to the process group of an exec in the background.
type SignalExecRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ID        string `json:"id"`
	Signal    string `json:"signal,omitempty"` // "INT" (the default) or "SIGINT", …
}

func (q *SignalExecRequest) setDefaults() { q.Signal = "INT" }

// States of an exec in the background.
const (
	ExecRunning = "running"
	ExecEnded   = "ended"
)

// BackgroundExec describes an exec that was started in the background.
type BackgroundExec struct {
	ID        string   `json:"id"`
	Command   string   `json:"command"` // redacted, at most 256 bytes of it
	State     string   `json:"state"`   // ExecRunning or ExecEnded
	StartedAt float64  `json:"started_at"`
	EndedAt   *float64 `json:"ended_at"`
	// StdoutBytes and StderrBytes count what was printed so far, stored or not.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// Result is how it ended, nil while it runs. Its output is empty.
	Result *ExecResult `json:"result"`
}

// fromPeer is like that of ExecResult.
func (r *BackgroundExec) fromPeer() error {
	r.ID, r.Command, r.State = printable(r.ID), printable(r.Command), printable(r.State)
	switch {
	case r.StdoutBytes < 0 || r.StderrBytes < 0:
		return Errorf(CodeInternal, "cannot use the agent's result: a count of bytes is negative")
	case (r.State == ExecEnded) != (r.Result != nil):
		return Errorf(CodeInternal, "cannot use the agent's result: an exec in the background is %s", r.State)
	case r.Result != nil:
		return r.Result.fromPeer()
	}
	return nil
}

// StreamPart is a part of a stream that is stored within bounds.
type StreamPart struct {
	Cursor     int64  `json:"cursor"` // of the first byte of Data
	NextCursor int64  `json:"next_cursor"`
	Data       []byte `json:"data_b64"`
	// DroppedBytes counts those from the requested cursor on that are not stored any more.
	DroppedBytes int64 `json:"dropped_bytes"`
	// More reports that there is more beyond NextCursor.
	More bool `json:"more"`
}

// fromPeer checks that a part has what was asked for.
func (p *StreamPart) fromPeer(asked int64) error {
	if p.Cursor < 0 || p.NextCursor-p.Cursor != int64(len(p.Data)) || p.DroppedBytes != max(0, p.Cursor-asked) {
		return Errorf(CodeInternal, "cannot use the agent's result: its cursors and its data do not match")
	}
	return nil
}

// ReadExecResult describes an exec in the background, with a part of its output, redacted.
type ReadExecResult struct {
	BackgroundExec
	Stdout StreamPart `json:"stdout"`
	Stderr StreamPart `json:"stderr"`
}

// Complete reports whether the exec has ended and no output is beyond the two parts.
func (r *ReadExecResult) Complete() bool {
	return r.State == ExecEnded && !r.Stdout.More && !r.Stderr.More
}

// SignalExecResult says which signal was sent.
type SignalExecResult struct {
	BackgroundExec
	Signal string `json:"signal"`
}

// ListExecsRequest asks for every exec that was started in the background.
type ListExecsRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
}

// ListExecsResult lists them, oldest first.
type ListExecsResult struct {
	Execs []BackgroundExec `json:"execs"`
}

// StartExec starts a command in the background. It refuses the fields of q that are for
// commands with a client: Stream, TTY, Pass, Detach and MaxOutputBytes.
func (c *Client) StartExec(ctx context.Context, q ExecRequest) (BackgroundExec, error) {
	if err := checkUTF8("stdin", q.Stdin); err != nil {
		return BackgroundExec{}, err
	}
	return checked(Call(ctx, c, StartExec, q))
}

// ListExecs lists the commands that were started in the background, oldest first.
func (c *Client) ListExecs(ctx context.Context) ([]BackgroundExec, error) {
	r, err := Call(ctx, c, ListExecs, ListExecsRequest{})
	for i := 0; err == nil && i < len(r.Execs); i++ {
		err = r.Execs[i].fromPeer()
	}
	if err != nil {
		return nil, err
	}
	return r.Execs, nil
}

// ReadExec reads output of a command in the background.
func (c *Client) ReadExec(ctx context.Context, q ReadExecRequest) (ReadExecResult, error) {
	r, err := Call(ctx, c, ReadExec, q)
	if err == nil {
		err = cmp.Or(r.BackgroundExec.fromPeer(), r.Stdout.fromPeer(q.StdoutCursor), r.Stderr.fromPeer(q.StderrCursor))
	}
	if err != nil {
		return ReadExecResult{}, err
	}
	return r, nil
}

// SignalExec sends a signal to the process group of a command in the background.
func (c *Client) SignalExec(ctx context.Context, id, signal string) (BackgroundExec, error) {
	r, err := Call(ctx, c, SignalExec, SignalExecRequest{ID: id, Signal: signal})
	return checked(r.BackgroundExec, err)
}

// KillExec kills a command in the background with everything it has started, and returns
// how it ended. For a command that has ended, it returns that.
func (c *Client) KillExec(ctx context.Context, id string) (BackgroundExec, error) {
	return checked(Call(ctx, c, KillExec, ExecIDRequest{ID: id}))
}

// checked returns a description that came over the wire, if it makes sense.
func checked(r BackgroundExec, err error) (BackgroundExec, error) {
	if err == nil {
		err = r.fromPeer()
	}
	if err != nil {
		return BackgroundExec{}, err
	}
	return r, nil
}
