package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/text"
)

// MaxRecord bounds a line of the log, in bytes. In a record that would be longer, the
// arguments are replaced by a note of their length, and long texts and lists are cut.
const MaxRecord = 64 << 10

// maxText bounds each text of a record that is too long, in bytes.
const maxText = 1 << 10

// Genesis is the value of prev in the first record of a log.
const Genesis = "0000000000000000000000000000000000000000000000000000000000000000"

// The kinds of records.
const (
	KindCall   = "call"   // an operation, from its beginning to its end
	KindBegin  = "begin"  // an operation that is about to start
	KindEnd    = "end"    // how the operation of an earlier record ended
	KindRepair = "repair" // a line that a killed process left unfinished
	KindPrune  = "prune"  // old files are about to be removed
	// KindPlanted lists the files that an ended sandbox has left and that the host would
	// execute or obey. Op is the operation that opened the sandbox, or, if its owner was
	// killed, the one that found the files.
	KindPlanted = "planted"
	// KindLost lists operations whose end will never be recorded, because their process
	// is gone.
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
	// Process is the process that wrote a begin record, if known. Append sets it.
	Process *Process `json:"process,omitempty"`
	// Lost holds the seqs of begin records.
	Lost      []uint64 `json:"lost,omitempty"`
	Principal string   `json:"principal,omitempty"`
	Op        string   `json:"op,omitempty"`
	Sandbox   string   `json:"sandbox,omitempty"`
	// Args are the operation's arguments, without secrets.
	Args    json.RawMessage `json:"args,omitempty"`
	Outcome string          `json:"outcome,omitempty"`
	Error   string          `json:"error,omitempty"`
	// Exit is the exit status of an operation that has one.
	Exit       *int     `json:"exit,omitempty"`
	Denials    []Denial `json:"denials,omitempty"`
	DurationUS int64    `json:"duration_us,omitempty"`
	// Planted holds paths that the host obeys without being asked, Programs paths that run
	// when a person names them, Unseen paths that could not be compared, and NewSockets
	// sockets of the host that commands could connect to, since they appeared after the start.
	Planted    []string `json:"planted,omitempty"`
	Programs   []string `json:"programs,omitempty"`
	Unseen     []string `json:"unseen,omitempty"`
	NewSockets []string `json:"new_sockets,omitempty"`
	Repair     *Repair  `json:"repair,omitempty"`
	Prune      *Prune   `json:"prune,omitempty"`
	Hash       string   `json:"hash"`
}

// Denial is something that was denied to a command of the operation.
type Denial struct {
	Layer  string `json:"layer"`
	Rule   string `json:"rule"`
	Object string `json:"object,omitempty"`
}

// Repair describes the bytes before this record, in the same file, that are not a record.
type Repair struct {
	Offset int64  `json:"offset"` // in the file
	Bytes  int64  `json:"bytes"`  // up to the repair's own line
	SHA256 string `json:"sha256"` // of these bytes
	// Suspect says that they do not look like the incomplete line of a killed process.
	Suspect bool `json:"suspect,omitempty"`
}

// Prune names files that were removed.
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

// shorten cuts a record that is too long.
func (r *Record) shorten() {
	if len(r.Args) > 0 {
		r.Args, _ = json.Marshal(map[string]int{"cut_bytes": len(r.Args)}) // cannot fail
	}
	cut := func(s *string) { *s = text.Truncate(*s, maxText) }
	for _, s := range []*string{&r.Principal, &r.Op, &r.Sandbox, &r.Error} {
		cut(s)
	}
	r.Denials = r.Denials[:min(len(r.Denials), 8)]
	for _, list := range []*[]string{&r.Planted, &r.Programs, &r.Unseen, &r.NewSockets} {
		*list = (*list)[:min(len(*list), 8)]
		for i := range *list {
			cut(&(*list)[i])
		}
	}
	for i := range r.Denials {
		cut(&r.Denials[i].Layer)
		cut(&r.Denials[i].Rule)
		cut(&r.Denials[i].Object)
	}
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// hashOf returns the hash at the end of a line, after checking it.
func hashOf(line []byte) (string, error) {
	body := len(line) - hashTail
	if body < 0 || string(line[body:body+len(hashKey)]) != hashKey || !bytes.HasSuffix(line, []byte("\"}\n")) {
		return "", errors.New("not a record")
	}
	hash := string(line[body+len(hashKey) : len(line)-len("\"}\n")])
	if sum(line[:body]) != hash {
		return "", errors.New("its hash is wrong")
	}
	return hash, nil
}

// seqOf returns the number of a line whose hash is right, without decoding the rest: a
// process that appends once would spend most of its time on that.
func seqOf(line []byte) (uint64, error) {
	text, found := bytes.CutPrefix(line, []byte(`{"seq":`))
	text, _, ended := bytes.Cut(text, []byte(","))
	if !found || !ended {
		return 0, errors.New("not a record")
	}
	return strconv.ParseUint(string(text), 10, 64)
}

// parse decodes a line, and returns an error if it was changed.
func parse(line []byte, r *Record) error {
	hash, err := hashOf(line)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(line, r); err != nil || r.Hash != hash {
		return errors.New("not a record")
	}
	return nil
}

// encode encodes a record field by field, with the result of encoding/json. That package
// first has to build an encoder for the type, which takes a process that writes two records
// longer than everything else about them.
func (r *Record) encode() ([]byte, error) {
	e := encoder{b: append(make([]byte, 0, 512+len(r.Args)), `{"seq":`...)}
	e.b = strconv.AppendUint(e.b, r.Seq, 10)
	e.text("time", r.Time.Format(time.RFC3339Nano))
	e.text("prev", r.Prev)
	e.text("kind", r.Kind)
	e.number("call", int64(r.Call))
	if p := r.Process; p != nil {
		e.b = append(e.key("process"), `{"pid":`...)
		e.b = strconv.AppendInt(e.b, int64(p.PID), 10)
		e.b = append(e.b, `,"start":`...)
		e.b = strconv.AppendUint(e.b, p.Start, 10)
		e.b = append(e.b, `,"pid_namespace":`...)
		e.b = strconv.AppendUint(e.b, p.Namespace, 10)
		e.text("boot", p.Boot)
		e.b = append(e.b, '}')
	}
	if len(r.Lost) > 0 {
		e.value("lost", r.Lost)
	}
	e.optional("principal", r.Principal)
	e.optional("op", r.Op)
	e.optional("sandbox", r.Sandbox)
	if len(r.Args) > 0 {
		e.json("args", r.Args)
	}
	e.optional("outcome", r.Outcome)
	e.optional("error", r.Error)
	if r.Exit != nil {
		e.b = strconv.AppendInt(e.key("exit"), int64(*r.Exit), 10)
	}
	if len(r.Denials) > 0 {
		e.value("denials", r.Denials)
	}
	e.number("duration_us", r.DurationUS)
	for _, list := range []struct {
		key   string
		texts []string
	}{{"planted", r.Planted}, {"programs", r.Programs}, {"unseen", r.Unseen}, {"new_sockets", r.NewSockets}} {
		if len(list.texts) > 0 {
			e.value(list.key, list.texts)
		}
	}
	if r.Repair != nil {
		e.value("repair", r.Repair)
	}
	if r.Prune != nil {
		e.value("prune", r.Prune)
	}
	if e.err != nil {
		return nil, e.err
	}
	r.Hash = sum(e.b)
	return append(e.b, hashKey+r.Hash+"\"}\n"...), nil
}

// encoder appends members to an object.
type encoder struct {
	b   []byte
	err error
}

func (e *encoder) key(name string) []byte {
	return append(append(append(e.b, `,"`...), name...), `":`...)
}

func (e *encoder) text(name, s string) { e.b = appendText(e.key(name), s) }

func (e *encoder) optional(name, s string) {
	if s != "" {
		e.text(name, s)
	}
}

func (e *encoder) number(name string, n int64) {
	if n != 0 {
		e.b = strconv.AppendInt(e.key(name), n, 10)
	}
}

func (e *encoder) value(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		e.err = err
		return
	}
	e.b = append(e.key(name), text...)
}

// json appends JSON, on one line.
func (e *encoder) json(name string, text []byte) {
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		e.err = err
		return
	}
	e.b = append(e.key(name), b.Bytes()...)
}

// appendText appends a JSON string. Invalid UTF-8 becomes U+FFFD.
func appendText(b []byte, s string) []byte {
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ':
			b = append(b, `\u00`...)
			b = append(b, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}
