package wire

import "encoding/json"

// StartServiceRequest starts a long-running command and waits until it is
// ready. A service that ended may be started again under its name.
type StartServiceRequest struct {
	Action      string   `json:"action"`
	KeepAlive   bool     `json:"keep_alive,omitempty"`
	ServiceName string   `json:"service_name"`
	Command     OSString `json:"command"` // for /bin/sh -lc
	// Cwd is absolute below /workspace, or relative to it. Default: /workspace.
	Cwd OSString `json:"cwd,omitempty"`
	// Readiness says when the service is ready: an object with a type and the
	// fields of that type (see WIRE.md). If it is absent or not an object, the
	// service is ready at once.
	Readiness json.RawMessage `json:"readiness,omitempty"`
	// ReadyUnused refuses to start the service if its tcp or http readiness holds
	// already (conflict, with the object "readiness"): another program answers
	// there, and the service would count as ready whatever it does.
	ReadyUnused bool `json:"ready_unused,omitempty"`
	// ReadyTimeoutSeconds bounds the wait for readiness. Default: 30.
	ReadyTimeoutSeconds float64 `json:"ready_timeout_seconds,omitempty"`
	// ReadyIntervalMS is the time between two checks, at least 1. Default: 500.
	ReadyIntervalMS int64 `json:"ready_interval_ms,omitempty"`
	Env             OSEnv `json:"env,omitempty"`
	// SecretEnv names secrets of set_secrets, at most MaxSecretEnv, that become variables;
	// Env replaces them. Their values are redacted for as long as the service runs.
	SecretEnv []string `json:"secret_env,omitempty"`
	// RedactValues are replaced by [REDACTED] in the service's logs and record.
	RedactValues []string `json:"redact_values,omitempty"`
	// Redaction holds rules for further text to replace.
	Redaction RedactRules `json:"redaction,omitempty"`
}

func (q *StartServiceRequest) setDefaults() {
	q.Cwd, q.ReadyTimeoutSeconds, q.ReadyIntervalMS = workspaceRoot, 30, 500
}

func (*StartServiceRequest) envOwner() string { return "service" }

// ServiceRequest names a service, for status_service and stop_service.
type ServiceRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ServiceName string `json:"service_name"`
}

// LogsServiceRequest asks for the output of a service.
type LogsServiceRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ServiceName string `json:"service_name"`
	// TailLines bounds each stream to its last lines. Absent: all stored output.
	TailLines *int64 `json:"tail_lines,omitempty"`
}

// ReadServiceRequest asks for output of a service from cursors on.
type ReadServiceRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ServiceName string `json:"service_name"`
	// StdoutCursor and StderrCursor count bytes from the service's start.
	StdoutCursor int64 `json:"stdout_cursor,omitempty"`
	StderrCursor int64 `json:"stderr_cursor,omitempty"`
	// MaxBytes bounds each stream in the answer. Default: 262144; at most MaxStreamRead.
	MaxBytes int64 `json:"max_bytes,omitempty"`
	// WaitMS is how long the answer may wait for output beyond one of the cursors, or
	// for the end, in milliseconds. Default: 0; at most MaxReadWaitMS.
	WaitMS int64 `json:"wait_ms,omitempty"`
}

func (q *ReadServiceRequest) setDefaults() { q.MaxBytes = defaultStreamRead }

// ReadServiceResult is a service's record and a part of its output, redacted. A secret that
// was installed after it was printed can make Data shorter or longer than the cursors say.
type ReadServiceResult struct {
	Service
	Stdout StreamPart `json:"stdout"`
	Stderr StreamPart `json:"stderr"`
}

// Service is the record of a service.
type Service struct {
	ServiceName string          `json:"service_name"`
	Command     string          `json:"command"`
	Cwd         OSString        `json:"cwd"`
	State       string          `json:"state"`      // running, exited, failed or stopped
	StartedAt   float64         `json:"started_at"` // seconds since 1970
	Readiness   json.RawMessage `json:"readiness"`
	ReadyAt     *float64        `json:"ready_at"`
	EndedAt     *float64        `json:"ended_at"`
	ExitCode    *int            `json:"exit_code"` // -N if signal N ended it
	PID         *int            `json:"pid"`
	StopReason  *string         `json:"stop_reason"` // process_exited_before_ready, readiness_timeout, sigterm or sigkill
	// RedactionMatches counts the replacements of each rule in the logs so far;
	// Blocked names the rule that ended a log, if one did.
	RedactionMatches RedactCounts `json:"redaction_matches,omitempty"`
	Blocked          string       `json:"blocked,omitempty"`
}

// StopServiceResult is a service's record after stop_service.
type StopServiceResult struct {
	Service
	Killed      int  `json:"survivors_killed"` // processes that had to be killed
	DeathProved bool `json:"death_proved"`
}

// LogsServiceResult is a service's record and its output, redacted.
type LogsServiceResult struct {
	Service
	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	TailLines       *int64 `json:"tail_lines"`
	Truncated       bool   `json:"truncated"`        // lines of either stream were left out
	StdoutTruncated bool   `json:"stdout_truncated"` // likewise, of one
	StderrTruncated bool   `json:"stderr_truncated"`
}

// ListServicesRequest asks for every service.
type ListServicesRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
}

// ListServicesResult is every service's record, sorted by name.
type ListServicesResult struct {
	Services []Service `json:"services"`
}
