package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// begunDir is a directory beside the files of records, with an empty file for each
// operation that has begun and not ended. Its name is the number of the begin record
// and the process that wrote it, so that a later process finds those that never will
// end: who was killed, and whose disk was full, could not say so.
const begunDir = "begun"

// Bounds of what is remembered of operations without an end.
const (
	maxPending = 256  // ends that could not be written, in one process
	maxLost    = 1000 // numbers in one record
)

// Process is the process that wrote a begin record.
type Process struct {
	PID       int    `json:"pid"`
	Start     uint64 `json:"start"`         // ticks since the machine started
	Namespace uint64 `json:"pid_namespace"` // in which PID is its number
	Boot      string `json:"boot"`          // which start of the machine
}

// The states of a process that a record names.
const (
	processRuns = iota
	processGone
	processElsewhere // in another pid namespace: it cannot be looked at
)

func (p *Process) markName(seq uint64) string {
	return filepath.Join(begunDir, fmt.Sprintf("%d-%d-%d-%d-%s", seq, p.PID, p.Start, p.Namespace, p.Boot))
}

// parseMark reads the name of a mark.
func parseMark(name string) (seq uint64, p Process, ok bool) {
	n, err := fmt.Sscanf(name, "%d-%d-%d-%d-%s", &seq, &p.PID, &p.Start, &p.Namespace, &p.Boot)
	return seq, p, err == nil && n == 5 && filepath.Base(p.markName(seq)) == name
}

// mark notes that the operation of a begin record runs. Where that fails, [Verify]
// alone misses its end.
func (d *dir) mark(r *Record) {
	if err := d.root.Mkdir(begunDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) || !d.ownBegun() {
		return
	}
	f, err := d.root.OpenFile(r.Process.markName(r.Seq), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_ = f.Close()
	}
}

// ownBegun reports whether the directory of marks is one of this user's, and no link.
func (d *dir) ownBegun() bool {
	info, err := d.root.Lstat(begunDir)
	return err == nil && info.IsDir() && private(filepath.Join(d.path, begunDir)) == nil
}

// unmark notes that an operation of this process has ended.
func (d *dir) unmark(seq uint64) {
	if p := self(); p != nil && d.ownBegun() {
		_ = d.root.Remove(p.markName(seq)) // it may never have been made
	}
}

// lost lists the operations that began and whose process is gone.
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

// Begun is an operation that has a begin record and no end record.
type Begun struct {
	Seq       uint64    `json:"seq"` // of the begin record
	Time      time.Time `json:"time"`
	Op        string    `json:"op"`
	Principal string    `json:"principal,omitempty"`
	File      string    `json:"file"`
	Line      int       `json:"line"`

	process *Process
}

// maxBegun bounds how many operations without an end are followed at a time.
const maxBegun = 100_000

// unended sorts out the operations without an end.
func (v *verifier) unended() {
	r := &v.report
	for _, seq := range slices.Sorted(maps.Keys(v.begun)) {
		b := v.begun[seq]
		state := processGone // what names none was written before processes were named
		if b.process != nil && !v.lost[seq] {
			state = b.process.state()
		}
		switch state {
		case processGone:
			r.Lost, r.LostCount = newest(r.Lost, b), r.LostCount+1
		case processRuns:
			r.Running, r.RunningCount = newest(r.Running, b), r.RunningCount+1
		default:
			r.Unknown, r.UnknownCount = newest(r.Unknown, b), r.UnknownCount+1
		}
	}
}

// newest appends to a list of at most maxProblems.
func newest(list []Begun, b Begun) []Begun {
	if len(list) >= maxProblems {
		list = list[1:]
	}
	return append(list, b)
}
