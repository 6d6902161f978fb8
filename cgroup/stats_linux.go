package cgroup

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Stats is what the processes of a group, and of groups inside of it, use and
// have used. A nil field is not counted by this hierarchy or kernel.
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
	Refused uint64  `json:"refused"`        // forks that pids.max refused
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
// processes waited, and for how long since the group was made.
type Stall struct {
	SomeAvg10 float64       `json:"some_avg10"`
	SomeTotal time.Duration `json:"some_total_ns"`
	FullAvg10 float64       `json:"full_avg10"`
	FullTotal time.Duration `json:"full_total_ns"`
}

// Stats reads what is counted. An error means that the group is gone.
func (g *Group) Stats() (Stats, error) {
	var s Stats
	if _, err := g.read("cgroup.events"); err != nil {
		return s, err
	}
	s.Memory, s.CPU, s.Pids, s.IO = g.memory(), g.cpu(), g.pids(), g.io()
	p := Pressure{CPU: g.stall("cpu.pressure"), Memory: g.stall("memory.pressure"), IO: g.stall("io.pressure")}
	if p != (Pressure{}) {
		s.Pressure = &p
	}
	return s, nil
}

func (g *Group) memory() *Memory {
	current := g.number("memory.current")
	if current == nil {
		return nil
	}
	m := &Memory{Current: *current, Peak: g.number("memory.peak"), Swap: g.number("memory.swap.current")}
	text, _ := g.read("memory.events")
	events := keyed(text)
	m.High, m.Max, m.OOM, m.OOMKills = events["high"], events["max"], events["oom"], events["oom_kill"]
	return m
}

func (g *Group) cpu() *CPU {
	text, err := g.read("cpu.stat")
	if err != nil {
		return nil
	}
	stat := keyed(text)
	micros := func(key string) time.Duration { return time.Duration(stat[key]) * time.Microsecond }
	c := &CPU{Usage: micros("usage_usec"), User: micros("user_usec"), System: micros("system_usec")}
	if periods, ok := stat["nr_periods"]; ok {
		throttled, waited := stat["nr_throttled"], micros("throttled_usec")
		c.Periods, c.Throttled, c.Waited = &periods, &throttled, &waited
	}
	return c
}

func (g *Group) pids() *Pids {
	current := g.number("pids.current")
	if current == nil {
		return nil
	}
	p := &Pids{Current: uint64(*current)}
	if peak := g.number("pids.peak"); peak != nil {
		n := uint64(*peak)
		p.Peak = &n
	}
	text, _ := g.read("pids.events")
	p.Refused = keyed(text)["max"]
	return p
}

func (g *Group) io() *IO {
	text, err := g.read("io.stat")
	if err != nil {
		return nil
	}
	return parseIO(text)
}

// parseIO reads "MAJ:MIN rbytes=… wbytes=… rios=… wios=… …" of each device.
func parseIO(text string) *IO {
	var sum IO
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "rbytes":
			sum.ReadBytes += n
		case "wbytes":
			sum.WriteBytes += n
		case "rios":
			sum.Reads += n
		case "wios":
			sum.Writes += n
		}
	}
	return &sum
}

// number reads a file that holds one number, nil where it does not exist.
func (g *Group) number(file string) *int64 {
	text, err := g.read(file)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func (g *Group) stall(file string) *Stall {
	text, err := g.read(file)
	if err != nil {
		return nil // the kernel was started without pressure information, too
	}
	return parseStall(text)
}

// parseStall reads the lines "some avg10=… … total=…" and "full …".
func parseStall(text string) *Stall {
	var s Stall
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 5 {
			continue
		}
		avg, err1 := strconv.ParseFloat(strings.TrimPrefix(f[1], "avg10="), 64)
		total, err2 := strconv.ParseInt(strings.TrimPrefix(f[4], "total="), 10, 64)
		if errors.Join(err1, err2) != nil {
			continue
		}
		switch f[0] {
		case "some":
			s.SomeAvg10, s.SomeTotal = avg, time.Duration(total)*time.Microsecond
		case "full":
			s.FullAvg10, s.FullTotal = avg, time.Duration(total)*time.Microsecond
		}
	}
	return &s
}

// Gone says whether an error means that a group was removed.
func Gone(err error) bool { return errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) }
