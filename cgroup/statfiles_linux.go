package cgroup

import (
	"strconv"
	"strings"
	"time"
)

func (r *reader) memory() *Memory {
	current := r.size("memory.current")
	events, ok := r.keyed("memory.events", "high", "max", "oom", "oom_kill")
	if current == nil || !ok {
		return nil
	}
	return &Memory{
		Current: *current, Peak: r.size("memory.peak"), Swap: r.size("memory.swap.current"),
		High: events["high"], Max: events["max"], OOM: events["oom"], OOMKills: events["oom_kill"],
		OOMGroupKills: optional(events, "oom_group_kill"),
	}
}

func (r *reader) cpu() *CPU {
	stat, ok := r.keyed("cpu.stat", "usage_usec", "user_usec", "system_usec")
	if !ok {
		return nil
	}
	c := &CPU{
		Usage: micros(stat["usage_usec"]), User: micros(stat["user_usec"]), System: micros(stat["system_usec"]),
		Periods: optional(stat, "nr_periods"), Throttled: optional(stat, "nr_throttled"),
	}
	if waited := optional(stat, "throttled_usec"); waited != nil {
		d := micros(*waited)
		c.Waited = &d
	}
	return c
}

func micros(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

func (r *reader) pids() *Pids {
	current := r.number("pids.current")
	events, ok := r.keyed("pids.events", "max")
	if current == nil || !ok {
		return nil
	}
	return &Pids{Current: *current, Peak: r.number("pids.peak"), Refused: events["max"]}
}

func (r *reader) io() *IO {
	text, ok := r.read("io.stat")
	if !ok {
		return nil
	}
	return parseIO(text)
}

// parseIO sums "MAJ:MIN rbytes=… wbytes=… rios=… wios=… …" of each device.
// One that nobody has used is not there.
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

// parseStall reads the lines "some avg10=… avg60=… avg300=… total=…" and
// "full …", of which the first must be there.
func parseStall(text string) (*Stall, bool) {
	var s Stall
	found := false
	for line := range strings.Lines(text) {
		kind, rest, _ := strings.Cut(line, " ")
		avg, total, ok := parseStallLine(rest)
		switch {
		case !ok:
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

func parseStallLine(text string) (avg10 float64, total time.Duration, ok bool) {
	values := map[string]string{}
	for field := range strings.FieldsSeq(text) {
		key, value, _ := strings.Cut(field, "=")
		values[key] = value
	}
	avg10, err1 := strconv.ParseFloat(values["avg10"], 64)
	n, err2 := strconv.ParseUint(values["total"], 10, 64)
	return avg10, micros(n), err1 == nil && err2 == nil
}
