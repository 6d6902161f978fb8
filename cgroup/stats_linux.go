package cgroup

import "time"

// Stats is what the processes of a group, and of groups inside of it, use and
// have used, those that are gone included. A nil field, absent from JSON, is not
// counted by this hierarchy or kernel: a zero was measured.
type Stats struct {
	Memory   *Memory   `json:"memory,omitempty"`
	CPU      *CPU      `json:"cpu,omitempty"`
	Pids     *Pids     `json:"pids,omitempty"`
	IO       *IO       `json:"io,omitempty"`
	Pressure *Pressure `json:"pressure,omitempty"`
}

// Memory is in bytes; events are counts.
type Memory struct {
	Current  int64  `json:"current"`
	Peak     *int64 `json:"peak,omitempty"` // Linux 5.19
	Swap     *int64 `json:"swap,omitempty"`
	High     uint64 `json:"high_events"` // times that processes were slowed down at memory.high
	Max      uint64 `json:"max_events"`  // times that memory.max was reached
	OOM      uint64 `json:"oom_events"`
	OOMKills uint64 `json:"oom_kills"` // processes that were killed for want of memory
	// OOMGroupKills counts the groups that were killed as a whole, in Linux 5.17 and later.
	OOMGroupKills *uint64 `json:"oom_group_kills,omitempty"`
}

// CPU is processor time.
type CPU struct {
	Usage     time.Duration  `json:"usage_ns"`
	User      time.Duration  `json:"user_ns"`
	System    time.Duration  `json:"system_ns"`
	Periods   *uint64        `json:"periods,omitempty"`   // of cpu.max that passed
	Throttled *uint64        `json:"throttled,omitempty"` // of them, those in which it was used up
	Waited    *time.Duration `json:"waited_ns,omitempty"` // for the next one
}

// Pids counts processes and threads.
type Pids struct {
	Current uint64  `json:"current"`
	Peak    *uint64 `json:"peak,omitempty"` // Linux 6.0
	// Refused counts the forks that pids.max refused; before Linux 6.11 those
	// in this very group alone.
	Refused uint64 `json:"refused"`
}

// IO is summed over all block devices.
type IO struct {
	ReadBytes  uint64 `json:"read_bytes"`
	WriteBytes uint64 `json:"write_bytes"`
	Reads      uint64 `json:"reads"`
	Writes     uint64 `json:"writes"`
}

// Pressure is how long processes had to wait for a resource
// (Documentation/accounting/psi.rst).
type Pressure struct {
	CPU    *Stall `json:"cpu,omitempty"`
	Memory *Stall `json:"memory,omitempty"`
	IO     *Stall `json:"io,omitempty"`
}

// Stall says for which part of the last 10 seconds, in percent, some or all
// processes waited, and for how long since the group was made. Before Linux 5.13 no
// group of processes is said to wait as a whole for a processor.
type Stall struct {
	SomeAvg10 float64       `json:"some_avg10"`
	SomeTotal time.Duration `json:"some_total_ns"`
	FullAvg10 float64       `json:"full_avg10"`
	FullTotal time.Duration `json:"full_total_ns"`
}

// Stats reads what is counted. An error means that the group is gone, or that
// a file could not be read or understood: what is in Stats holds all the same.
func (g *Group) Stats() (Stats, error) {
	r := reader{group: g}
	if _, err := g.read(controllersFile); err != nil { // every group has it, the root too
		return Stats{}, err
	}
	s := Stats{Memory: r.memory(), CPU: r.cpu(), Pids: r.pids(), IO: r.io()}
	p := Pressure{CPU: r.stall("cpu.pressure"), Memory: r.stall("memory.pressure"), IO: r.stall("io.pressure")}
	if p != (Pressure{}) {
		s.Pressure = &p
	}
	return s, r.err
}
