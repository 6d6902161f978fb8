package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// begunDir is the directory of marks: an empty file for each operation that has begun and
// not ended, named after its begin record and its process. A later process finds there the
// operations whose process was killed, or could not write their end.
const begunDir = "begun"

// The bounds on operations without an end.
const (
	maxPending = 256  // ends that one process keeps to write them later
	maxLost    = 1000 // seqs in one record
)

// Process is the process that wrote a begin record.
type Process struct {
	PID       int    `json:"pid"`
	Start     uint64 `json:"start"`         // when it started, in clock ticks since boot
	Namespace uint64 `json:"pid_namespace"` // inode of the PID namespace that PID belongs to
	Boot      string `json:"boot"`          // boot ID
}

// The states of the process of a begin record.
const (
	processRuns = iota
	processGone
	processUnknown // in another PID namespace, or not to be seen in /proc
)

func (p *Process) markName(seq uint64) string {
	return filepath.Join(begunDir, fmt.Sprintf("%d-%d-%d-%d-%s", seq, p.PID, p.Start, p.Namespace, p.Boot))
}

// parseMark parses the name of a mark.
func parseMark(name string) (seq uint64, p Process, ok bool) {
	n, err := fmt.Sscanf(name, "%d-%d-%d-%d-%s", &seq, &p.PID, &p.Start, &p.Namespace, &p.Boot)
	return seq, p, err == nil && n == 5 && filepath.Base(p.markName(seq)) == name
}

// mark makes the mark of a begin record. If that fails, only [Verify] notices when the end
// is missing.
func (d *dir) mark(r *Record) {
	if err := d.root.Mkdir(begunDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) || !d.ownBegun() {
		return
	}
	f, err := d.root.OpenFile(r.Process.markName(r.Seq), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_ = f.Close()
	}
}

// ownBegun reports whether the directory of marks belongs to this user, and is not a link.
func (d *dir) ownBegun() bool {
	info, err := d.root.Lstat(begunDir)
	return err == nil && info.IsDir() && checkOwner(filepath.Join(d.path, begunDir)) == nil
}

// lost returns the operations whose process is gone, and their marks.
func (d *dir) lost() (seqs []uint64, marks []string) {
	if !d.ownBegun() {
		return nil, nil
	}
	f, err := d.root.Open(begunDir)
	if err != nil {
		return nil, nil
	}
	defer func() { _ = f.Close() }()
	names, _ := f.Readdirnames(-1)
	for _, name := range names {
		seq, p, ok := parseMark(name)
		if ok && p.state() == processGone && len(seqs) < maxLost {
			seqs, marks = append(seqs, seq), append(marks, filepath.Join(begunDir, name))
		}
	}
	slices.Sort(seqs)
	return seqs, marks
}

// self returns this process, or nil if /proc is not available, as on systems other than Linux.
var self = sync.OnceValue(func() *Process {
	p := &Process{PID: os.Getpid(), Boot: boot(), Namespace: pidNamespace()}
	start, err := startOf(p.PID)
	if err != nil || p.Boot == "" || p.Namespace == 0 {
		return nil
	}
	p.Start = start
	return p
})

// boot returns the boot ID, which is new each time the machine starts.
var boot = sync.OnceValue(func() string {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(text))
})

// pidNamespace returns the inode of the PID namespace, or 0 if /proc is not available.
var pidNamespace = sync.OnceValue(func() uint64 {
	info, err := os.Stat("/proc/self/ns/pid")
	if err != nil {
		return 0
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
})

// startOf returns when a process started, in clock ticks since boot.
func startOf(pid int) (uint64, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	// The command name, in parentheses, may hold any character.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const started = 22 - 3 // the index among the fields after the name
	if len(fields) <= started || string(fields[0]) == "Z" || string(fields[0]) == "X" {
		return 0, fs.ErrNotExist
	}
	return strconv.ParseUint(string(fields[started]), 10, 64)
}

// state returns the state of the process.
func (p *Process) state() int {
	switch now := boot(); {
	case p.Boot != now && now != "":
		return processGone
	case p.Namespace != pidNamespace():
		return processUnknown
	}
	start, err := startOf(p.PID)
	switch {
	case err == nil && start == p.Start:
		return processRuns
	case err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH):
		return processGone
	}
	return processUnknown
}

// Begun is an operation with a begin record and no end record.
type Begun struct {
	Seq       uint64    `json:"seq"` // of the begin record
	Time      time.Time `json:"time"`
	Op        string    `json:"op"`
	Principal string    `json:"principal,omitempty"`
	File      string    `json:"file"`
	Line      int       `json:"line"`

	process *Process
}

// maxBegun bounds how many operations without an end [Verify] tracks.
const maxBegun = 100_000

// newest appends to a list, and drops the oldest one beyond maxProblems.
func newest(list []Begun, b Begun) []Begun {
	if len(list) >= maxProblems {
		list = list[1:]
	}
	return append(list, b)
}
