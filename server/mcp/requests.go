package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxRequests bounds how many requests are read before their answers are written.
const maxRequests = 1024

// asked are the requests without an answer, by their identifiers.
type asked struct {
	mu  sync.Mutex
	n   int
	ids map[jsonrpc.ID]bool
}

func (a *asked) add(id jsonrpc.ID) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.ids[id]:
		return errors.New("its id is that of a request that still waits for its answer")
	case a.n >= maxRequests:
		return errors.New("too many requests wait for their answers")
	case a.ids == nil:
		a.ids = map[jsonrpc.ID]bool{}
	}
	a.ids[id] = true
	a.n++
	return nil
}

// free lets an identifier be used again: its answer is about to be written, and who
// has read it may be quick.
func (a *asked) free(id jsonrpc.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ids, id)
}

// answered takes note of n answers that were written, and says how many are not.
func (a *asked) answered(n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n -= n
	return a.n
}

func (a *asked) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.n
}

// idOf is the identifier in a message, as it was sent; nil where it has none.
func idOf(text []byte) json.RawMessage {
	var msg struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(text, &msg) != nil || len(msg.ID) == 0 || !strings.ContainsRune(`"-0123456789`, rune(msg.ID[0])) {
		return nil
	}
	return msg.ID
}

// checkID refuses a number that an answer could not repeat exactly.
func checkID(id json.RawMessage) error {
	const most = 1<<53 - 1 // a program that reads numbers as JavaScript does tells all up to here apart
	if len(id) == 0 || id[0] == '"' {
		return nil
	}
	if n, err := strconv.ParseFloat(string(id), 64); err != nil || n != math.Trunc(n) || math.Abs(n) > most {
		return fmt.Errorf("its id is not a whole number from -%d to %d, and no string", most, most)
	}
	return nil
}

// endLength is how much of each end of a line is looked at, in bytes.
const endLength = 256

// ends are the two ends of a line that is not read whole.
func ends(text []byte) []byte {
	if len(text) <= 2*endLength {
		return text
	}
	return append(text[:endLength:endLength], text[len(text)-endLength:]...)
}

// Where clients write the identifier: at the beginning or at the end. What stands
// there belongs to the message, and to nothing in it.
var (
	idFirst = regexp.MustCompile(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15}|"[\w.:-]{1,100}")\s*,`)
	idLast  = regexp.MustCompile(`,\s*"id"\s*:\s*(\d{1,15}|"[\w.:-]{1,100}")\s*\}\s*$`)
)

// idAtEnds is the identifier of a message of which only the ends are there, nil
// where they have none: who asked would wait for ever for an answer without it.
func idAtEnds(text []byte) json.RawMessage {
	for _, re := range []*regexp.Regexp{idFirst, idLast} {
		if m := re.FindSubmatch(text); m != nil {
			return json.RawMessage(m[1])
		}
	}
	return nil
}

// batchRevision is the one revision of the protocol whose servers take several
// messages at once, as an array.
const batchRevision = "2025-03-26"

// noArray is why others' arrays are refused, and empty ones, and those of more than
// [maxRequests] messages.
var noArray = fmt.Sprintf("it is an array, which clients of %s alone may send, of 1 to %d messages", batchRevision, maxRequests)

// batches are the arrays of messages whose answers are not written yet. The zero value
// is ready.
type batches struct {
	revision string // of the session, empty before there is one

	mu      sync.Mutex
	waiting map[jsonrpc.ID]*batch
}

// batch is one array. Its answers are written together.
type batch struct {
	requests int // all of them
	left     int // those without an answer
	answers  [][]byte
}

// add records an array: its requests, and the answers to its malformed messages.
func (b *batches) add(ids []jsonrpc.ID, answers [][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting == nil {
		b.waiting = map[jsonrpc.ID]*batch{}
	}
	one := &batch{len(ids), len(ids), answers}
	for _, id := range ids {
		b.waiting[id] = one
	}
}

// answer gives what is to be written now that a request was answered by text, and how
// many answers that is: none while others of its array are missing.
func (b *batches) answer(id jsonrpc.ID, text []byte) ([]byte, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.waiting[id]
	if one == nil {
		return text, 1
	}
	delete(b.waiting, id)
	one.answers = append(one.answers, text)
	if one.left--; one.left > 0 {
		return nil, 0
	}
	return array(one.answers), one.requests
}

// array is the JSON of several values.
func array(all [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(all, []byte{','})...), ']')
}

// several reads an array of messages. Those that cannot be taken are answered with the
// others.
func (l *lines) several(text []byte) []jsonrpc.Message {
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) == 0 || len(parts) > maxRequests || l.batches.revision != batchRevision {
		l.refuse(&refusal{code: jsonrpc.CodeInvalidRequest, reason: noArray})
		return nil
	}
	var all []jsonrpc.Message
	var ids []jsonrpc.ID
	var refused [][]byte
	for _, part := range parts {
		msg, no := l.message(part)
		if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
			ids = append(ids, req.ID)
		}
		if no != nil {
			refused = append(refused, no.answer())
		} else {
			all = append(all, msg)
		}
	}
	if len(ids) > 0 {
		l.batches.add(ids, refused)
	} else if len(refused) > 0 {
		_ = l.write(array(refused)) // the next write fails as well, and is heard of
	}
	return all
}
