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

	"github.com/paddock-dev/paddock/internal/lazyregexp"
)

// maxRequests bounds how many requests are read before their answers are written.
const maxRequests = 1024

// pendingRequests are the requests without an answer, by id.
type pendingRequests struct {
	mu  sync.Mutex
	n   int
	ids map[jsonrpc.ID]bool
}

func (p *pendingRequests) add(id jsonrpc.ID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ids[id]:
		return errors.New("a request with the same id still waits for its answer")
	case p.n >= maxRequests:
		return errors.New("too many requests wait for their answers")
	case p.ids == nil:
		p.ids = map[jsonrpc.ID]bool{}
	}
	p.ids[id] = true
	p.n++
	return nil
}

// free makes an id available again. It is called before the answer is written, since the client
// may reuse the id as soon as it has read the answer.
func (p *pendingRequests) free(id jsonrpc.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.ids, id)
}

// answered records that n answers were written, and returns how many are missing.
func (p *pendingRequests) answered(n int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n -= n
	return p.n
}

func (p *pendingRequests) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.n
}

// idOf returns the id of a message as it was sent, or nil if it has none.
func idOf(text []byte) json.RawMessage {
	var msg struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(text, &msg) != nil || len(msg.ID) == 0 || !strings.ContainsRune(`"-0123456789`, rune(msg.ID[0])) {
		return nil
	}
	return msg.ID
}

// checkID returns an error for a number that an answer could not repeat exactly.
func checkID(id json.RawMessage) error {
	const most = 1<<53 - 1 // the largest integer that JavaScript represents exactly
	if len(id) == 0 || id[0] == '"' {
		return nil
	}
	if n, err := strconv.ParseFloat(string(id), 64); err != nil || n != math.Trunc(n) || math.Abs(n) > most {
		return fmt.Errorf("its id must be a string, or a whole number from -%d to %d", most, most)
	}
	return nil
}

// endLength is how much of each end of a line is searched for an id, in bytes.
const endLength = 256

// ends returns the two ends of a line.
func ends(text []byte) []byte {
	if len(text) <= 2*endLength {
		return text
	}
	return append(text[:endLength:endLength], text[len(text)-endLength:]...)
}

// Clients write the id at the beginning or at the end of a message. An id there belongs to
// the message itself, not to something in it.
var (
	idFirst = lazyregexp.New(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15}|"[\w.:-]{1,100}")\s*,`)
	idLast  = lazyregexp.New(`,\s*"id"\s*:\s*(\d{1,15}|"[\w.:-]{1,100}")\s*\}\s*$`)
)

// idAtEnds returns the id of a message of which only the beginning and the end are known, or
// nil. If the error had no id, the client would wait for its answer for ever.
func idAtEnds(text []byte) json.RawMessage {
	for _, re := range []*regexp.Regexp{idFirst(), idLast()} {
		if m := re.FindSubmatch(text); m != nil {
			return json.RawMessage(m[1])
		}
	}
	return nil
}

// batchRevision is the only revision of the protocol in which a client may send several
// messages as an array.
const batchRevision = "2025-03-26"

// noArray is the error for arrays of other revisions, empty ones, and those of more than
// [maxRequests] messages.
var noArray = fmt.Sprintf("only clients of %s may send an array, of 1 to %d messages", batchRevision, maxRequests)

// batches are the arrays of messages whose answers are not written yet. The zero value is
// ready to use.
type batches struct {
	revision string // of the session; empty before initialize

	mu      sync.Mutex
	waiting map[jsonrpc.ID]*batch
}

// batch is an array of messages, whose answers are written together.
type batch struct {
	requests int // in all
	left     int // without an answer
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

// answer returns what to write after a request was answered by text, and how many answers
// that is: none while answers to the same array are missing.
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

// array joins JSON values to a JSON array.
func array(all [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(all, []byte{','})...), ']')
}

// readBatch reads an array of messages. Malformed ones get an error response together with
// the other answers.
func (l *lines) readBatch(text []byte) []jsonrpc.Message {
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
		_ = l.write(array(refused)) // the next write fails too, and returns the error
	}
	return all
}
