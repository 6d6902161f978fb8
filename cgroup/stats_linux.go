package cgroup

import (
	"strconv"
	"strings"
	"time"
)

// Stats is the present and past use of resources by the processes of a group, and of
// groups inside of it, including processes that have ended. A nil field, absent from JSON,
// is not counted by this hierarchy or kernel; a zero was measured.
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
	OOMKills uint64 `json:"oom_kills"` // processes that were killed because memory ran out
	// OOMGroupKills counts the groups that were killed as a whole, in Linux 5.17 and later.
	OOMGroupKills *uint64 `json:"oom_group_kills,omitempty"`
}

// CPU is processor time.
type CPU struct {
	Usage     time.Duration  `json:"usage_ns"`
	User      time.Duration  `json:"user_ns"`
	System    time.Duration  `json:"system_ns"`
	Periods   *uint64        `json:"periods,omitempty"`   // periods of cpu.max that have passed
	Throttled *uint64        `json:"throttled,omitempty"` // those in which the quota was used up
	Waited    *time.Duration `json:"waited_ns,omitempty"` // time waited for the next period
}

// Pids counts processes and threads.
type Pids struct {
	Current uint64  `json:"current"`
	Peak    *uint64 `json:"peak,omitempty"` // Linux 6.0
	// Refused counts the forks that pids.max refused; before Linux 6.11 only
	// those in this group itself.
	Refused uint64 `json:"refused"`
}

// IO is the sum over all block devices.
type IO struct {
	ReadBytes  uint64 `json:"read_bytes"`
	WriteBytes uint64 `json:"write_bytes"`
	Reads      uint64 `json:"reads"`
	Writes     uint64 `json:"writes"`
}

// Pressure says how long processes had to wait for a resource
// (Documentation/accounting/psi.rst).
type Pressure struct {
	CPU    *Stall `json:"cpu,omitempty"`
	Memory *Stall `json:"memory,omitempty"`
	IO     *Stall `json:"io,omitempty"`
}

// Stall says how long some or all processes waited: in percent of the last 10
// seconds, and in total since the group was made. Before Linux 5.13 the kernel
// does not report that all processes of a group waited for a processor.
type Stall struct {
	SomeAvg10 float64       `json:"some_avg10"`
	SomeTotal time.Duration `json:"some_total_ns"`
	FullAvg10 float64       `json:"full_avg10"`
	FullTotal time.Duration `json:"full_total_ns"`
}

// Stats reads everything that is counted. An error means that the group was
// removed, or that a file could not be read or parsed; the fields of the result
// that are set are valid even then.
func (g *Group) Stats() (Stats, error) {
	r := reader{group: g}
	if _, err := g.read(controllersFile); err != nil { // every group has it, even the root
		return Stats{}, err
	}
	var s Stats
	current := r.size("memory.current")
	events, ok := r.keyed("memory.events", "high", "max", "oom", "oom_kill")
	if current != nil && ok {
		s.Memory = &Memory{
			Current: *current, Peak: r.size("memory.peak"), Swap: r.size("memory.swap.current"),
			High: events["high"], Max: events["max"], OOM: events["oom"], OOMKills: events["oom_kill"],
			OOMGroupKills: optional(events, "oom_group_kill"),
		}
	}
	if stat, ok := r.keyed("cpu.stat", "usage_usec", "user_usec", "system_usec"); ok {
		s.CPU = &CPU{
			Usage: micros(stat["usage_usec"]), User: micros(stat["user_usec"]), System: micros(stat["system_usec"]),
			Periods: optional(stat, "nr_periods"), Throttled: optional(stat, "nr_throttled"),
		}
		if waited := optional(stat, "throttled_usec"); waited != nil {
			d := micros(*waited)
			s.CPU.Waited = &d
		}
	}
	pids := r.number("pids.current")
	if events, ok := r.keyed("pids.events", "max"); ok && pids != nil {
		s.Pids = &Pids{Current: *pids, Peak: r.number("pids.peak"), Refused: events["max"]}
	}
	if text, ok := r.read("io.stat"); ok {
		s.IO = parseIO(text)
	}
	p := Pressure{CPU: r.stall("cpu.pressure"), Memory: r.stall("memory.pressure"), IO: r.stall("io.pressure")}
	if p != (Pressure{}) {
		s.Pressure = &p
	}
	return s, r.err
}

func micros(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

// parseIO sums "MAJ:MIN rbytes=… wbytes=… rios=… wios=… …" over all devices. A
// device that was never used has no line.
func parseIO(text string) *IO {
	var sum IO
	fields := map[string]*uint64{"rbytes": &sum.ReadBytes, "wbytes": &sum.WriteBytes, "rios": &sum.Reads, "wios": &sum.Writes}
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil && fields[key] != nil {
			*fields[key] += n
		}
	}
	return &sum
}

// stall reads a pressure file.
func (r *reader) stall(file string) *Stall {
	text, ok := r.read(file)
	if !ok {
		return nil
	}
	s, ok := parseStall(text)
	if !ok {
		r.malformed(file, text)
	}
	return s
}

// parseStall parses the lines "some avg10=… avg60=… avg300=… total=…" and
// "full …", of which the first must be present.
func parseStall(text string) (*Stall, bool) {
	var s Stall
	found := false
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(line, " ")
		values := map[string]string{}
		for field := range strings.FieldsSeq(rest) {
			key, value, _ := strings.Cut(field, "=")
			values[key] = value
		}
		avg, err1 := strconv.ParseFloat(values["avg10"], 64)
		n, err2 := strconv.ParseUint(values["total"], 10, 64)
		total := micros(n)
		switch {
		case err1 != nil || err2 != nil:
			return nil, false
		case kind == "some":
			s.SomeAvg10, s.SomeTotal, found = avg, total, true
		case kind == "full":
			s.FullAvg10, s.FullTotal = avg, total
		}
	}
	if !found {
		return nil, false
	}
	return &s, true
}
