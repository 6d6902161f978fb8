package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
)

// maxProblems bounds how many problems a report lists. All are counted.
const maxProblems = 100

// Problem is one thing that is wrong with a log.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // from 1; 0 for the file as a whole
	What string `json:"what"`
}

// Report is the result of [Verify].
type Report struct {
	OK      bool   `json:"ok"`
	Files   int    `json:"files"`
	Records uint64 `json:"records"`
	// Head is the hash of the last record, and Seq its number.
	Head string `json:"head"`
	Seq  uint64 `json:"seq"`
	// After is how many records follow the one with the hash that was passed to Verify.
	After uint64 `json:"after,omitempty"`
	// Repairs counts incomplete lines of killed processes that have a repair record. They
	// are not problems.
	Repairs int `json:"repairs,omitempty"`
	// Pruned is how many records were removed according to a prune record.
	Pruned uint64 `json:"pruned,omitempty"`
	// Lost holds operations without an end record whose process has ended: it was killed, or
	// could not write. The chain is intact nevertheless. Running holds operations whose
	// process is running, and Unknown operations whose process cannot be examined from here.
	// Each list has the newest hundred.
	Lost         []Begun `json:"lost,omitempty"`
	LostCount    int     `json:"lost_count"`
	Running      []Begun `json:"running,omitempty"`
	RunningCount int     `json:"running_count,omitempty"`
	Unknown      []Begun `json:"unknown,omitempty"`
	UnknownCount int     `json:"unknown_count,omitempty"`
	// Problems holds the first hundred problems; Wrong counts all.
	Problems []Problem `json:"problems,omitempty"`
	Wrong    int       `json:"wrong,omitempty"`
}

// verifier walks the chain.
type verifier struct {
	report Report
	want   string // the hash to find, or empty
	found  uint64 // seq of the record with that hash
	file   string
	line   int
	prev   string
	seq    uint64
	began  bool // there was a record
	// first describes the records that were removed before the first present one.
	first  Prune
	at     int
	pruned bool // a prune record accounts for them
	last   int  // number of the previous file, 0 at the beginning
	begun  map[uint64]Begun
	lost   map[uint64]bool // seqs in lost records

	badFrom int64 // where lines that are not records begin; negative: nowhere
	badLine int
	badSum  hash.Hash
}

// Verify reads the whole log in a directory and checks its chain. If head is not empty, it
// is the head of an earlier report, and a log without a record of that hash was cut or
// rewritten. An error means that the log could not be read.
func Verify(ctx context.Context, path, head string) (Report, error) {
	d, err := openDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		v := verifier{want: head, prev: Genesis}
		v.finish()
		return v.report, nil
	}
	if err != nil {
		return Report{}, fmt.Errorf("cannot read the audit log: %w", err)
	}
	defer d.close()
	files, sizes, err := d.snapshot(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("cannot read the audit log in %s: %w", path, err)
	}
	defer closeAll(files)
	v := verifier{want: head, prev: Genesis, begun: map[uint64]Begun{}, lost: map[uint64]bool{}}
	v.report.Files = len(files)
	for i, f := range files {
		if err := v.walk(ctx, filepath.Base(f.Name()), f, sizes[i]); err != nil {
			return Report{}, fmt.Errorf("cannot read %s: %w", v.file, err)
		}
	}
	v.finish()
	return v.report, nil
}

// walk verifies one file.
func (v *verifier) walk(ctx context.Context, name string, f io.ReaderAt, size int64) error {
	v.file, v.line, v.badFrom = name, 0, -1
	n, _ := numberOf(name)
	if v.last == 0 {
		v.at = n
	} else if n != v.last+1 {
		v.problem(0, fmt.Sprintf("the file before it, %s, is missing", fileName(n-1)))
	}
	v.last = n
	l := lines{f: f, end: size}
	for newLine := true; ; {
		from := l.off
		piece, whole, err := l.next()
		if errors.Is(err, io.EOF) {
			v.endOfFile(l.rest(), l.off)
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		if newLine {
			v.line++
		}
		newLine = piece[len(piece)-1] == '\n'
		var r Record
		if !whole || parse(piece, &r) != nil {
			if v.badFrom < 0 {
				v.badFrom, v.badLine, v.badSum = from, v.line, sha256.New()
			}
			v.badSum.Write(piece)
			continue
		}
		v.record(&r, from)
	}
}

// record checks that r continues the chain. If it does not, the chain is checked from there
// on, so that each fault is reported once.
func (v *verifier) record(r *Record, from int64) {
	v.endUnreadable(r, from)
	switch {
	case !v.began && r.Prev != Genesis:
		v.first = Prune{Through: v.at - 1, Seq: r.Seq - 1, Head: r.Prev}
	case !v.began && (r.Seq != 1 || v.at != 1):
		v.problem(v.line, "not the first record of a log, but it names none before it")
	case v.began && r.Prev != v.prev && r.Seq == v.seq+1:
		v.problem(v.line, fmt.Sprintf("it does not continue the record before it: one of the two was changed (number %d)", r.Seq))
	case v.began && (r.Prev != v.prev || r.Seq != v.seq+1):
		v.problem(v.line, fmt.Sprintf("number %d stands where number %d belongs: records were removed, added or moved", r.Seq, v.seq+1))
	}
	v.began, v.prev, v.seq = true, r.Hash, r.Seq
	v.report.Records++
	if r.Hash == v.want {
		v.found = r.Seq
	}
	switch {
	case r.Kind == KindPrune && r.Prune != nil:
		// It accounts for records that are missing at the beginning of the log.
		p, first := *r.Prune, v.first
		v.pruned = v.pruned || p == first || p.Through > first.Through && p.Seq > first.Seq
		if p.Head == v.want {
			v.found = p.Seq
		}
	case r.Kind == KindBegin && len(v.begun) >= maxBegun:
		v.report.UnknownCount++ // too many to track
	case r.Kind == KindBegin:
		v.begun[r.Seq] = Begun{Seq: r.Seq, Time: r.Time, Op: r.Op, Principal: r.Principal, File: v.file, Line: v.line, process: r.Process}
	case r.Kind == KindEnd:
		delete(v.begun, r.Call)
	case r.Kind == KindLost:
		for _, seq := range r.Lost {
			if _, open := v.begun[seq]; open {
				v.lost[seq] = true
			}
		}
	}
}

// endUnreadable checks that the lines before r that are not records have a repair record.
func (v *verifier) endUnreadable(r *Record, from int64) {
	start := v.badFrom
	v.badFrom = -1
	repair := Repair{}
	if r.Kind == KindRepair && r.Repair != nil {
		repair = *r.Repair
	}
	if start < 0 {
		if repair.Bytes != 0 {
			v.problem(v.line, "it describes an incomplete line before it that is not there")
		}
		return
	}
	is := Repair{Offset: start, Bytes: from - start, SHA256: hex.EncodeToString(v.badSum.Sum(nil))}
	if repair == is {
		v.report.Repairs++
		return
	}
	v.problem(v.badLine, "not a record, or changed")
}

// endOfFile checks the text after the last newline of a file, and lines before it that are not
// records.
func (v *verifier) endOfFile(rest []byte, from int64) {
	var r Record
	switch {
	case len(rest) > 0 && parse(append(bytes.Clone(rest), '\n'), &r) == nil:
		v.line++
		v.record(&r, from)
	case v.badFrom >= 0:
		v.problem(v.badLine, "not a record, or changed")
	case len(rest) > 0:
		v.problem(v.line+1, "unfinished line: a process was killed while it wrote, or the file was cut (the next operation will close it off)")
	}
}

// finish completes the report.
func (v *verifier) finish() {
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
	r.Head, r.Seq = v.prev, v.seq
	if v.first.Head != "" {
		r.Pruned = v.first.Seq
		if !v.pruned {
			v.file = fileName(v.at)
			v.problem(1, "the records before it are missing, and no record says that they were removed")
		}
	}
	switch {
	case v.want == "" || v.want == Genesis:
	case v.found > 0:
		r.After = v.seq - v.found
	case r.Pruned > 0:
		v.problem(0, wantMissing+", or the record was among the oldest ones, which were removed")
	default:
		v.problem(0, wantMissing)
	}
	r.OK = r.Wrong == 0
}

const wantMissing = "no record has the hash that was asked for: the log was cut or written anew"

func (v *verifier) problem(line int, what string) {
	v.report.Wrong++
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, Problem{File: v.file, Line: line, What: what})
	}
}
