package cgroup

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// feed gives a process that eats memory a line, and says whether it answered.
func (p *player) feed(t *testing.T, mib int) bool {
	t.Helper()
	if _, err := fmt.Fprintln(p.in, mib); err != nil {
		return false
	}
	line, _ := p.said.ReadString('\n')
	return line != ""
}

// Beyond memory.max the kernel kills processes of the group, or all of them with
// memory.oom.group, and none outside of it.
func TestMemoryMaxKillsTheGroup(t *testing.T) {
	g := controlled(t, "memory")
	if _, err := g.Enable("memory"); err != nil {
		t.Fatal(err)
	}
	beside, err := g.Create("beside")
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	bounded, err := g.Create("bounded")
	if err != nil {
		t.Fatal(err)
	}
	defer bounded.Close()
	if err := bounded.Set(Limits{MemoryMax: 32 << 20, SwapMax: pointer(int64(0)), OOMGroup: true}); err != nil {
		t.Fatal(err)
	}
	bystander := play(t, beside, "eat")
	companion, glutton := play(t, bounded, "wait"), play(t, bounded, "eat")
	companion.hear(t)
	if !bystander.feed(t, 1) || !glutton.feed(t, 8) {
		t.Fatal("killed within the limit")
	}
	if glutton.feed(t, 64) {
		t.Fatal("alive beyond the limit")
	}
	if err := bounded.WaitEmpty(t.Context()); err != nil {
		t.Fatal(err)
	}
	companion.silence(t)
	if !bystander.feed(t, 64) {
		t.Error("one beside was killed, too")
	}
	s, err := bounded.Stats()
	if err != nil {
		t.Fatal(err)
	}
	m := s.Memory
	if m == nil || m.OOM == 0 || m.OOMKills < 2 || m.Max == 0 {
		t.Errorf("%+v", m)
	}
	if m.OOMGroupKills == nil || *m.OOMGroupKills != 1 {
		t.Logf("groups killed: %v (not counted before Linux 5.17)", m.OOMGroupKills)
	}
	// Some charges cannot be refused, and go a few pages above the limit.
	if m.Peak != nil && (*m.Peak < 16<<20 || *m.Peak > 33<<20) {
		t.Errorf("peak %d", *m.Peak)
	}
	if s, err := beside.Stats(); err != nil || s.Memory.OOMKills != 0 || s.Memory.Current < 60<<20 {
		t.Errorf("beside: %+v, %v", s.Memory, err)
	}
}

// Without OOMGroup one process dies, and others live on.
func TestMemoryMaxKillsOne(t *testing.T) {
	g := controlled(t, "memory")
	if err := g.Set(Limits{MemoryMax: 32 << 20, SwapMax: pointer(int64(0))}); err != nil {
		t.Fatal(err)
	}
	companion, glutton := play(t, g, "eat"), play(t, g, "eat")
	if !companion.feed(t, 1) || glutton.feed(t, 64) || !companion.feed(t, 1) {
		t.Error("not the one that was too greedy")
	}
	if s, err := g.Stats(); err != nil || s.Memory.OOMKills != 1 {
		t.Errorf("%+v, %v", s.Memory, err)
	}
}

func TestPidsMaxRefuses(t *testing.T) {
	g := controlled(t, "pids")
	const most = 40 // threads of these programs included
	if err := g.Set(Limits{Pids: most}); err != nil {
		t.Fatal(err)
	}
	p := play(t, g, "fork")
	said := p.hear(t)
	n, refused, _ := strings.Cut(said, " ")
	if count, err := strconv.Atoi(n); err != nil || count < 1 || count >= most || refused != "true" {
		t.Errorf("it says %q", said)
	}
	s, err := g.Stats()
	if err != nil || s.Pids == nil || s.Pids.Refused == 0 || s.Pids.Current > most {
		t.Fatalf("%+v, %v", s.Pids, err)
	}
	if s.Pids.Peak != nil && *s.Pids.Peak > most {
		t.Errorf("peak %d", *s.Pids.Peak)
	}
}

func TestCPUMaxThrottles(t *testing.T) {
	g := controlled(t, "cpu")
	if err := g.Set(Limits{MilliCPUs: 200}); err != nil {
		t.Fatal(err)
	}
	const spin = 2 * time.Second
	p := play(t, g, "spin "+spin.String())
	said := p.hear(t)
	used, err := strconv.Atoi(said)
	// A fifth, and the time that slow machines need for the start.
	if limit := spin / 2; err != nil || time.Duration(used)*time.Millisecond > limit {
		t.Errorf("it used %s ms of %v, more than %v", said, spin, limit)
	}
	s, err := g.Stats()
	if err != nil || s.CPU.Periods == nil || *s.CPU.Periods == 0 || *s.CPU.Throttled == 0 || *s.CPU.Waited < spin/4 {
		t.Fatalf("%+v, %v", s.CPU, err)
	}
}

// A group that delegates controllers holds no processes, and the other way round.
func TestNoInternalProcesses(t *testing.T) {
	g := controlled(t, "memory")
	p := play(t, g, "wait")
	p.hear(t)
	var e *Error
	if got, err := g.Enable("memory"); !errors.Is(err, unix.EBUSY) || !errors.As(err, &e) || e.Hint == "" || len(got) != 0 {
		t.Errorf("handed on by a group with a process: %v, %v", got, err)
	}
	child, err := g.Vacate("host")
	if err != nil {
		t.Fatal(err)
	}
	defer child.Close()
	if got, err := g.Enable("memory"); err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if err := g.Add(p.Process.Pid); !errors.Is(err, unix.EBUSY) || !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("added to a group that hands on: %v", err)
	}
}

func TestIOMax(t *testing.T) {
	g := controlled(t, "io")
	device, ok := blockDevice()
	if !ok {
		t.Skip("no block device whose rate can be bounded here")
	}
	device.ReadBPS, device.WriteIOPS = 1<<20, 100
	if err := g.Set(Limits{IO: []IOLimit{device}}); err != nil {
		t.Fatal(err)
	}
	l, err := g.Limits()
	if err != nil || len(l.IO) != 1 || l.IO[0] != device {
		t.Errorf("%+v, %v", l.IO, err)
	}
	if err := g.Set(Limits{IO: []IOLimit{{Major: 4000, ReadBPS: 1}}}); !errors.Is(err, unix.ENODEV) {
		t.Errorf("a device that is none: %v", err)
	}
	if s, err := g.Stats(); err != nil || s.IO == nil {
		t.Errorf("%+v, %v", s.IO, err)
	}
}

// blockDevice is a whole disk.
func blockDevice() (IOLimit, bool) {
	disks, _ := os.ReadDir("/sys/block")
	for _, disk := range disks {
		text, _ := os.ReadFile("/sys/block/" + disk.Name() + "/dev")
		var l IOLimit
		if n, _ := fmt.Sscanf(string(text), "%d:%d", &l.Major, &l.Minor); n == 2 && !strings.HasPrefix(disk.Name(), "ram") {
			return l, true
		}
	}
	return IOLimit{}, false
}
