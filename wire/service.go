package wire

import "encoding/json"

// StartServiceRequest starts a long-running command and waits until it is
// ready. A service that ended may be started again under its name.
type StartServiceRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ServiceName string `json:"service_name"`
	Command     string `json:"command"` // for /bin/sh -lc
	// Cwd is absolute below /workspace, or relative to it. Default: /workspace.
	Cwd Path `json:"cwd,omitempty"`
	// Readiness says what makes the service ready: an object with a type and
	// what that type needs (see WIRE.md). Absent, and whatever is no object:
	// it is ready at once.
	Readiness json.RawMessage `json:"readiness,omitempty"`
	// ReadyUnused refuses, before the start, a tcp or http readiness that holds
	// already (conflict, with the object "readiness"): somebody else answers there,
	// and the service would count as ready whatever becomes of it.
	ReadyUnused bool `json:"ready_unused,omitempty"`
	// ReadyTimeoutSeconds bounds the wait for readiness. Default: 30.
	ReadyTimeoutSeconds float64 `json:"ready_timeout_seconds,omitempty"`
	// ReadyIntervalMS is the time between two looks, 1 at least. Default: 500.
	ReadyIntervalMS int64             `json:"ready_interval_ms,omitempty"`
	Env             map[string]string `json:"env,omitempty"`
	// RedactValues are replaced by [REDACTED] in the service's logs and record.
	RedactValues []string `json:"redact_values,omitempty"`
	// Redaction are rules for more that is replaced.
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

// LogsServiceRequest asks for what a service has printed.
type LogsServiceRequest struct {
	Action      string `json:"action"`
	KeepAlive   bool   `json:"keep_alive,omitempty"`
	ServiceName string `json:"service_name"`
	// TailLines bounds each stream to its last lines. Absent: all that is kept.
	TailLines *int64 `json:"tail_lines,omitempty"`
}

// Service is the record of a service.
type Service struct {
	ServiceName string          `json:"service_name"`
	Command     string          `json:"command"`
	Cwd         Path            `json:"cwd"`
	State       string          `json:"state"`      // running, exited, failed or stopped
	StartedAt   float64         `json:"started_at"` // seconds since 1970
	Readiness   json.RawMessage `json:"readiness"`
	ReadyAt     *float64        `json:"ready_at"`
	EndedAt     *float64        `json:"ended_at"`
	ExitCode    *int            `json:"exit_code"` // -N where signal N ended it
	PID         *int            `json:"pid"`
	StopReason  *string         `json:"stop_reason"` // process_exited_before_ready, readiness_timeout, sigterm or sigkill
	// RedactionMatches counts what rules have replaced in the logs so far;
	// Blocked names the rule that ended a log, if one did.
	RedactionMatches RedactCounts `json:"redaction_matches,omitempty"`
	Blocked          string       `json:"blocked,omitempty"`
}

// StopServiceResult is a service's record after stop_service, with what its
// end took.
type StopServiceResult struct {
	Service
	Killed      int  `json:"survivors_killed"`
	DeathProved bool `json:"death_proved"`
}

// LogsServiceResult is a service's record and what it has printed, redacted.
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
