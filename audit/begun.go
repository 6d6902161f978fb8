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
	processUnknown // in another PID namespace, or /proc does not tell
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

// unmark removes the mark of an operation of this process.
func (d *dir) unmark(seq uint64) {
	if p := self(); p != nil && d.ownBegun() {
		_ = d.root.Remove(p.markName(seq)) // there may be none
	}
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

// sortUnfinished reports the operations without an end, by the state of their process.
func (v *verifier) sortUnfinished() {
	r := &v.report
	for _, seq := range slices.Sorted(maps.Keys(v.begun)) {
		b := v.begun[seq]
		state := processGone // older versions recorded no process
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

// newest appends to a list, and drops the oldest one beyond maxProblems.
func newest(list []Begun, b Begun) []Begun {
	if len(list) >= maxProblems {
		list = list[1:]
	}
	return append(list, b)
}
