package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

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
