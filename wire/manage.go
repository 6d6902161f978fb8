package wire

// UsageRequest asks what runs now.
type UsageRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
}

// UsageResult is what runs now, and what the agent itself takes.
type UsageResult struct {
	Trees []TreeUsage `json:"trees"`
	Agent AgentUsage  `json:"agent"`
}

// TreeUsage is what one exec, shell or service and all its descendants take.
type TreeUsage struct {
	ID          string  `json:"id"`   // for signal and kill
	Kind        string  `json:"kind"` // exec, shell or service
	Name        string  `json:"name"` // a shell's id, a service's name, the program of an exec
	PID         int     `json:"pid"`  // as the commands see it, 0 where they cannot
	StartedAt   float64 `json:"started_at"`
	Processes   int     `json:"processes"`
	UserCPUMS   int64   `json:"user_cpu_ms"` // of living processes and the children they waited for
	SystemCPUMS int64   `json:"system_cpu_ms"`
	MemoryBytes int64   `json:"memory_bytes"` // resident, shared pages counted for each
	Complete    bool    `json:"complete"`     // every process let itself be looked at
}

// AgentUsage is what the agent takes.
type AgentUsage struct {
	MemoryBytes int64 `json:"memory_bytes"` // resident
	PeakBytes   int64 `json:"peak_memory_bytes"`
	UserCPUMS   int64 `json:"user_cpu_ms"`
	SystemCPUMS int64 `json:"system_cpu_ms"`
	Goroutines  int   `json:"goroutines"`
	Descriptors int   `json:"descriptors"`
	Connections int   `json:"connections"`
}

// SignalRequest signals an exec, shell or service by its id.
type SignalRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ID        string `json:"id"`
	Signal    string `json:"signal"` // "INT" or "SIGINT", …
}

// SignalResult says what was sent.
type SignalResult struct {
	ID     string `json:"id"`
	Signal string `json:"signal"`
}

// KillRequest ends the whole tree of an exec, shell or service by its id.
type KillRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ID        string `json:"id"`
}

// KillResult says what the end took.
type KillResult struct {
	ID          string `json:"id"`
	Killed      int    `json:"killed"` // processes
	DeathProved bool   `json:"death_proved"`
}

// ShutdownRequest asks an agent that was started on its own to end: its
// children first, then itself.
type ShutdownRequest struct {
	Action string `json:"action"`
}

// ShutdownResult is the last answer of an agent, sent before it ends.
type ShutdownResult struct {
	Killed      int  `json:"killed"`
	DeathProved bool `json:"death_proved"`
}
