package wire

import "time"

// Time returns a time that an answer gives in seconds since 1970.
func Time(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)).UTC() }

// UsageRequest asks what is running, and which resources that uses.
type UsageRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
}

// UsageResult lists the running commands and the resources that they and the agent use.
type UsageResult struct {
	Trees []TreeUsage `json:"trees"`
	Agent AgentUsage  `json:"agent"`
	// Sandbox is what all commands together use, if a control group counts it.
	Sandbox *GroupUsage `json:"sandbox,omitempty"`
}

// GroupUsage has the counts of a control group. Fields that this kernel or
// hierarchy does not count are absent.
type GroupUsage struct {
	MemoryBytes      *int64  `json:"memory_bytes,omitempty"` // cached files included
	PeakMemoryBytes  *int64  `json:"peak_memory_bytes,omitempty"`
	SwapBytes        *int64  `json:"swap_bytes,omitempty"`
	OOMKills         *uint64 `json:"oom_kills,omitempty"`          // processes killed because memory ran out
	MemoryHighEvents *uint64 `json:"memory_high_events,omitempty"` // slowed down at memory.high
	UserCPUMS        *int64  `json:"user_cpu_ms,omitempty"`
	SystemCPUMS      *int64  `json:"system_cpu_ms,omitempty"`
	ThrottledMS      *int64  `json:"throttled_ms,omitempty"`
	Processes        *uint64 `json:"processes,omitempty"` // and threads
	ProcessesPeak    *uint64 `json:"processes_peak,omitempty"`
	ForksRefused     *uint64 `json:"forks_refused,omitempty"`
	IOReadBytes      *uint64 `json:"io_read_bytes,omitempty"`
	IOWriteBytes     *uint64 `json:"io_write_bytes,omitempty"`
	// Pressure is by "cpu", "memory" and "io".
	Pressure map[string]Stall `json:"pressure,omitempty"`
}

// Stall says how long some or all processes waited for a resource: in percent
// of the last 10 seconds, and in total.
type Stall struct {
	SomeAvg10 float64 `json:"some_avg10"`
	SomeMS    int64   `json:"some_ms"`
	FullAvg10 float64 `json:"full_avg10"`
	FullMS    int64   `json:"full_ms"`
}

// TreeUsage is the resource use of one exec, shell or service and all its descendants.
type TreeUsage struct {
	ID          string  `json:"id"`   // for signal and kill
	Kind        string  `json:"kind"` // exec, shell or service
	Name        string  `json:"name"` // a shell's id, a service's name, the program of an exec
	PID         int     `json:"pid"`  // as the commands see it, 0 if unknown
	StartedAt   float64 `json:"started_at"`
	Processes   int     `json:"processes"`
	UserCPUMS   int64   `json:"user_cpu_ms"` // of living processes and the children they waited for
	SystemCPUMS int64   `json:"system_cpu_ms"`
	MemoryBytes int64   `json:"memory_bytes"` // resident, shared pages counted for each
	Complete    bool    `json:"complete"`     // every process could be examined
}

// AgentUsage is the resource use of the agent itself.
type AgentUsage struct {
	MemoryBytes int64 `json:"memory_bytes"` // resident
	PeakBytes   int64 `json:"peak_memory_bytes"`
	UserCPUMS   int64 `json:"user_cpu_ms"`
	SystemCPUMS int64 `json:"system_cpu_ms"`
	Goroutines  int   `json:"goroutines"`
	Descriptors int   `json:"descriptors"`
	Connections int   `json:"connections"`
}

// SignalRequest sends a signal to an exec, shell or service by its id.
type SignalRequest struct {
	Action    string `json:"action"`
	KeepAlive bool   `json:"keep_alive,omitempty"`
	ID        string `json:"id"`
	Signal    string `json:"signal"` // "INT" or "SIGINT", …
}

// SignalResult says which signal was sent.
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

// KillResult says how many processes were killed.
type KillResult struct {
	ID          string `json:"id"`
	Killed      int    `json:"killed"` // processes
	DeathProved bool   `json:"death_proved"`
}

// ShutdownRequest asks a standalone agent to end its children and then itself.
type ShutdownRequest struct {
	Action string `json:"action"`
}

// ShutdownResult is the last answer of an agent, sent before it ends.
type ShutdownResult struct {
	Killed      int  `json:"killed"`
	DeathProved bool `json:"death_proved"`
}
