package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MaxRecord bounds a line of the log, in bytes. A record that would be longer
// loses its arguments, and then its other texts, to a note of their length.
const MaxRecord = 64 << 10

// maxText bounds each text of a record that is too long, in bytes.
const maxText = 1 << 10

// Genesis is the hash that the first record of a log names as the one before.
const Genesis = "0000000000000000000000000000000000000000000000000000000000000000"

// The kinds of records.
const (
	KindCall   = "call"   // an operation, from its beginning to its end
	KindBegin  = "begin"  // an operation that is about to start
	KindEnd    = "end"    // how the operation of an earlier record ended
	KindRepair = "repair" // a line that a killed process left unfinished
	KindPrune  = "prune"  // old files are about to be removed
	// KindPlanted says what a sandbox that has ended leaves for the host to execute
	// or obey; Op is the operation that had opened it, or, where its owner was killed,
	// the one that has found it.
	KindPlanted = "planted"
	// KindLost names operations that have begun, and whose end nobody can put on
	// record any more: their process is gone.
	KindLost = "lost"
)

// The outcomes of operations.
const (
	OutcomeOK     = "ok"
	OutcomeError  = "error"
	OutcomeDenied = "denied"
)

// Record is one line of the log. Append sets Seq, Time, Prev and Hash.
type Record struct {
	Seq  uint64    `json:"seq"` // from 1, without gaps
	Time time.Time `json:"time"`
	Prev string    `json:"prev"`
	Kind string    `json:"kind"`
	// Call is the seq of the begin record that an end record belongs to.
	Call uint64 `json:"call,omitempty"`
	// Process is that which wrote a begin record, where it is known. Append sets it.
	Process *Process `json:"process,omitempty"`
	// Lost are the seqs of begin records.
	Lost      []uint64 `json:"lost,omitempty"`
	Principal string   `json:"principal,omitempty"`
	Op        string   `json:"op,omitempty"`
	Sandbox   string   `json:"sandbox,omitempty"`
	// Args are the operation's arguments, without secrets.
	Args    json.RawMessage `json:"args,omitempty"`
	Outcome string          `json:"outcome,omitempty"`
	Error   string          `json:"error,omitempty"`
	// Exit is the status that a program should exit with, of operations that
	// have one.
	Exit       *int     `json:"exit,omitempty"`
	Denials    []Denial `json:"denials,omitempty"`
	DurationUS int64    `json:"duration_us,omitempty"`
	// Planted are paths that the host obeys without being told to, Programs those
	// that run when they are named, and Unseen says what could not be compared.
	Planted  []string `json:"planted,omitempty"`
	Programs []string `json:"programs,omitempty"`
	Unseen   []string `json:"unseen,omitempty"`
	Repair   *Repair  `json:"repair,omitempty"`
	Prune    *Prune   `json:"prune,omitempty"`
	Hash     string   `json:"hash"`
}

// Denial is something that was refused to what the operation ran.
type Denial struct {
	Layer  string `json:"layer"`
	Rule   string `json:"rule"`
	Object string `json:"object,omitempty"`
}

// Repair tells of bytes before this record, in the same file, that are none.
type Repair struct {
	Offset int64  `json:"offset"` // in the file
	Bytes  int64  `json:"bytes"`  // up to the repair's own line
	SHA256 string `json:"sha256"` // of these bytes
	// Suspect says that they do not look like what a killed process leaves.
	Suspect bool `json:"suspect,omitempty"`
}

// Prune tells of files that were removed.
type Prune struct {
	Through int    `json:"through"` // the highest number removed
	Seq     uint64 `json:"seq"`     // of the last record that was removed
	Head    string `json:"head"`    // its hash
}

const (
	hashKey  = `,"hash":"`
	hashTail = len(hashKey) + sha256.Size*2 + len("\"}\n")
)

// seal encodes r as a line, with its hash, which it also stores in r.
func (r *Record) seal() ([]byte, error) {
	line, err := r.encode()
	if err == nil && len(line) > MaxRecord {
		r.shorten()
		line, err = r.encode()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot encode an audit record: %w", err)
	}
	if len(line) > MaxRecord {
		return nil, fmt.Errorf("cannot write an audit record of %d bytes", len(line))
	}
	return line, nil
}

// shorten makes a record fit that its caller did not bound.
func (r *Record) shorten() {
	if len(r.Args) > 0 {
		r.Args, _ = json.Marshal(map[string]int{"cut_bytes": len(r.Args)}) // cannot fail
	}
	for _, text := range []*string{&r.Principal, &r.Op, &r.Sandbox, &r.Error} {
		*text = cut(*text, maxText)
	}
	r.Denials = r.Denials[:min(len(r.Denials), 8)]
	for _, list := range []*[]string{&r.Planted, &r.Programs, &r.Unseen} {
		*list = (*list)[:min(len(*list), 8)]
		for i, text := range *list {
			(*list)[i] = cut(text, maxText)
		}
	}
	for i := range r.Denials {
		d := &r.Denials[i]
		d.Layer, d.Rule, d.Object = cut(d.Layer, maxText), cut(d.Rule, maxText), cut(d.Object, maxText)
	}
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// hashOf is the hash at the end of a line, where it is that of the line.
func hashOf(line []byte) (string, error) {
	body := len(line) - hashTail
	if body < 0 || string(line[body:body+len(hashKey)]) != hashKey || !bytes.HasSuffix(line, []byte("\"}\n")) {
		return "", errors.New("it is not a record")
	}
	hash := string(line[body+len(hashKey) : len(line)-len("\"}\n")])
	if sum(line[:body]) != hash {
		return "", errors.New("it is not what its hash says")
	}
	return hash, nil
}

// seqOf is the number of a line whose hash is right, without reading it all:
// a process that appends once would spend most of its time on that.
func seqOf(line []byte) (uint64, error) {
	text, found := bytes.CutPrefix(line, []byte(`{"seq":`))
	text, _, ended := bytes.Cut(text, []byte(","))
	if !found || !ended {
		return 0, errors.New("it is not a record")
	}
	return strconv.ParseUint(string(text), 10, 64)
}

// parse reads a line back. It is an error when the line was changed.
func parse(line []byte, r *Record) error {
	hash, err := hashOf(line)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, r); err != nil || r.Hash != hash {
		return errors.New("it is not a record")
	}
	return nil
}
