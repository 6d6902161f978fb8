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
	"path/filepath"
)

// maxProblems bounds how many problems a report lists; all are counted.
const maxProblems = 100

// Problem is one thing that is wrong with a log.
type Problem struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"` // from 1; 0 where it is the whole file
	What string `json:"what"`
}

// Report is what Verify found.
type Report struct {
	OK      bool   `json:"ok"`
	Files   int    `json:"files"`
	Records uint64 `json:"records"`
	// Head is the hash of the last record, and Seq its number.
	Head string `json:"head"`
	Seq  uint64 `json:"seq"`
	// After is how many records follow the one whose hash was asked for.
	After uint64 `json:"after,omitempty"`
	// Repairs counts lines that killed processes left unfinished, and that
	// the log itself tells of. They are no problems.
	Repairs int `json:"repairs,omitempty"`
	// Pruned is how many records were removed, as the log itself tells.
	Pruned uint64 `json:"pruned,omitempty"`
	// Lost are operations that have begun, and whose end is on no record, though
	// their process has gone: it was killed, or could not write. The chain holds all
	// the same. Running are those whose process runs, and Unknown those of which that
	// cannot be told from here. Of each the newest hundred are listed.
	Lost         []Begun `json:"lost,omitempty"`
	LostCount    int     `json:"lost_count"`
	Running      []Begun `json:"running,omitempty"`
	RunningCount int     `json:"running_count,omitempty"`
	Unknown      []Begun `json:"unknown,omitempty"`
	UnknownCount int     `json:"unknown_count,omitempty"`
	// Problems are the first hundred; Wrong counts them all.
	Problems []Problem `json:"problems,omitempty"`
	Wrong    int       `json:"wrong,omitempty"`
}

// verifier walks the chain.
type verifier struct {
	report Report
	want   string // the hash to be found, or ""
	found  uint64 // its seq
	file   string
	line   int
	prev   string
	seq    uint64
	began  bool // a record was seen
	// first is what the first record continues, where that is missing.
	first  Prune
	at     int
	pruned bool // a record tells why it is missing
	last   int  // the number of the file before, 0 at the beginning
	begun  map[uint64]Begun
	lost   map[uint64]bool // that a record tells of

	wreckFrom int64 // where unreadable lines begin; negative: there are none
	wreckLine int
	wreckSum  hash.Hash
}

// Verify reads the whole log in a directory and says whether its chain holds.
// head, where it is not empty, is a hash that an earlier Verify gave: a log in
// which no record has it was cut, or written anew. An error is that of reading.
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

// walk reads one file.
func (v *verifier) walk(ctx context.Context, name string, f io.ReaderAt, size int64) error {
	v.file, v.line, v.wreckFrom = name, 0, -1
	v.number()
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
			v.wreck(piece, from)
			continue
		}
		v.record(&r, from)
	}
}

// number checks that no file between two is missing.
func (v *verifier) number() {
	n, _ := numberOf(v.file)
	if v.last == 0 {
		v.at = n
	} else if n != v.last+1 {
		v.wrong(0, fmt.Sprintf("the file before it, %s, is missing", fileName(n-1)))
	}
	v.last = n
}

// record checks that r continues the chain. After one that does not, the
// chain is taken up again from there: each fault is told once.
func (v *verifier) record(r *Record, from int64) {
	v.wreckEnds(r, from)
	switch {
	case !v.began && r.Prev != Genesis:
		v.first = Prune{Through: v.at - 1, Seq: r.Seq - 1, Head: r.Prev}
	case !v.began && (r.Seq != 1 || v.at != 1):
		v.wrong(v.line, "it is not the first record of a log, and names none before it")
	case v.began && r.Prev != v.prev && r.Seq == v.seq+1:
		v.wrong(v.line, fmt.Sprintf("it does not continue the record before it: that was changed, or this was (number %d)", r.Seq))
	case v.began && (r.Prev != v.prev || r.Seq != v.seq+1):
		v.wrong(v.line, fmt.Sprintf("number %d stands where number %d belongs: records were removed, added or moved", r.Seq, v.seq+1))
	}
	v.began, v.prev, v.seq = true, r.Hash, r.Seq
	v.report.Records++
	if r.Hash == v.want {
		v.found = r.Seq
	}
	switch {
	case r.Kind == KindPrune && r.Prune != nil:
		v.license(*r.Prune)
	case r.Kind == KindBegin && len(v.begun) >= maxBegun:
		v.report.UnknownCount++ // there are too many to follow
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

// license takes note that files up to a number may be missing.
func (v *verifier) license(p Prune) {
	first := v.first
	if p == first || p.Through > first.Through && p.Seq > first.Seq {
		v.pruned = true
	}
	if p.Head == v.want {
		v.found = p.Seq
	}
}

// wreck takes in a line, or a piece of one, that is no record.
func (v *verifier) wreck(piece []byte, from int64) {
	if v.wreckFrom < 0 {
		v.wreckFrom, v.wreckLine, v.wreckSum = from, v.line, sha256.New()
	}
	v.wreckSum.Write(piece)
}

// wreckEnds judges the lines before a record that are none.
func (v *verifier) wreckEnds(r *Record, from int64) {
	start := v.wreckFrom
	v.wreckFrom = -1
	repair := Repair{}
	if r.Kind == KindRepair && r.Repair != nil {
		repair = *r.Repair
	}
	if start < 0 {
		if repair.Bytes != 0 {
			v.wrong(v.line, "it tells of an unfinished line before it that is not there")
		}
		return
	}
	is := Repair{Offset: start, Bytes: from - start, SHA256: hex.EncodeToString(v.wreckSum.Sum(nil))}
	if repair == is {
		v.report.Repairs++
		return
	}
	v.wrong(v.wreckLine, "it is not a record, or was changed")
}

// endOfFile judges what follows the last newline of a file, and what was not
// judged before.
func (v *verifier) endOfFile(rest []byte, from int64) {
	var r Record
	switch {
	case len(rest) > 0 && parse(append(bytes.Clone(rest), '\n'), &r) == nil:
		v.line++
		v.record(&r, from)
	case v.wreckFrom >= 0:
		v.wrong(v.wreckLine, "it is not a record, or was changed")
	case len(rest) > 0:
		v.wrong(v.line+1, "it is unfinished: a process was killed while it wrote, or the file was cut (the next operation will close it off)")
	}
}

// finish says what can be said once all was read.
func (v *verifier) finish() {
	v.unended()
	v.report.Head, v.report.Seq = v.prev, v.seq
	if v.first.Head != "" {
		v.report.Pruned = v.first.Seq
		if !v.pruned {
			v.file = fileName(v.at)
			v.wrong(1, "the records before it are missing, and no record tells that they were removed")
		}
	}
	if v.want != "" && v.want != Genesis {
		v.wantFound()
	}
	v.report.OK = v.report.Wrong == 0
}

func (v *verifier) wantFound() {
	if v.found > 0 {
		v.report.After = v.seq - v.found
		return
	}
	what := "no record has the hash that was asked for: the log was cut or written anew"
	if v.report.Pruned > 0 {
		what += ", or that record was among those that were removed for their age"
	}
	v.wrong(0, what)
}

func (v *verifier) wrong(line int, what string) {
	v.report.Wrong++
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, Problem{File: v.file, Line: line, What: what})
	}
}
