package egress

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/paddock-dev/paddock/internal/strictjson"
	"github.com/paddock-dev/paddock/policy"
)

// MaxLine bounds a line of a request or an answer, in bytes. Rules at their bounds fit.
const MaxLine = 4 << 20

// Request is the one line that a client sends.
type Request struct {
	Op string `json:"op"` // OpShow, OpSet or OpLog
	// Network are the new rules, for OpSet.
	Network *json.RawMessage `json:"network,omitempty"`
	// Revision, if not nil, is that of the rules which OpSet may replace.
	Revision *uint64 `json:"revision,omitempty"`
	// After is the number of the last record that the client has, for OpLog.
	After uint64 `json:"after,omitempty"`
	// Follow asks for records that are made later, until the client closes the connection.
	Follow bool `json:"follow,omitempty"`
}

// The operations of a [Request].
const (
	OpShow = "show"
	OpSet  = "set"
	OpLog  = "log"
)

// Answer is a line of an answer. Exactly one field is set. OpShow and OpSet get one answer,
// OpLog any number of records and then Done.
type Answer struct {
	State  *State  `json:"state,omitempty"`
	Record *Record `json:"record,omitempty"`
	Done   bool    `json:"done,omitempty"`
	Error  *Error  `json:"error,omitempty"`
}

// Client asks the egress process of a sandbox. Its methods are safe for concurrent use: each
// makes a connection of its own.
type Client struct {
	// Dial connects to the listening socket of the process.
	Dial func(ctx context.Context) (net.Conn, error)
}

// Show returns rules and totals.
func (c *Client) Show(ctx context.Context) (State, error) {
	return c.state(ctx, Request{Op: OpShow})
}

// Set replaces all rules, which must be canonical, and returns the state after that. If it
// fails with an [*Error], nothing has changed.
func (c *Client) Set(ctx context.Context, network policy.Network) (State, error) {
	return c.set(ctx, network, nil)
}

// SetAt is like Set. It fails with an [*Error] that is Changed if the rules are not those of a
// revision any more.
func (c *Client) SetAt(ctx context.Context, network policy.Network, revision uint64) (State, error) {
	return c.set(ctx, network, &revision)
}

func (c *Client) set(ctx context.Context, network policy.Network, revision *uint64) (State, error) {
	data, err := json.Marshal(network)
	if err != nil {
		return State{}, err
	}
	return c.state(ctx, Request{Op: OpSet, Network: (*json.RawMessage)(&data), Revision: revision})
}

func (c *Client) state(ctx context.Context, r Request) (State, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerTimeout, errNoAnswer)
	defer cancel()
	var state *State
	err := c.ask(ctx, r, func(a Answer) (bool, error) {
		state = a.State
		return true, nil
	})
	switch {
	case err != nil:
		return State{}, err
	case state == nil:
		return State{}, errUnexpected
	}
	return *state, nil
}

// Log calls each with the records after the number, oldest first. With follow it waits for
// more until ctx ends, and then returns its error.
func (c *Client) Log(ctx context.Context, after uint64, follow bool, each func(Record) error) error {
	return c.ask(ctx, Request{Op: OpLog, After: after, Follow: follow}, func(a Answer) (bool, error) {
		switch {
		case a.Done:
			return true, nil
		case a.Record == nil:
			return true, errUnexpected
		}
		return false, each(*a.Record)
	})
}

// answerTimeout is how long a process may take for one answer: much longer than a busy one needs.
const answerTimeout = 20 * time.Second

var errNoAnswer = &Error{Message: "the egress process does not answer", Hint: "somebody may have stopped it; the sandbox reaches nothing until it continues, or is started anew"}

var errUnexpected = errors.New("unexpected answer of the egress process")

// ask sends a request, and calls each with answers until it reports that the last has come.
func (c *Client) ask(ctx context.Context, r Request, each func(Answer) (last bool, err error)) error {
	conn, err := c.Dial(ctx)
	if err != nil {
		return fmt.Errorf("cannot reach the egress process: %w", err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	failed := func(err error) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("cannot ask the egress process: %w", err)
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return failed(err)
	}
	lines := bufio.NewReader(conn)
	for {
		line, err := ReadLine(lines)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return failed(err)
		}
		var a Answer
		if err := strictjson.Unmarshal(line, &a, strictjson.Options{}); err != nil {
			return fmt.Errorf("%w: %v", errUnexpected, err)
		}
		if a.Error != nil {
			return a.Error
		}
		if last, err := each(a); last || err != nil {
			return err
		}
	}
}

// ReadLine returns the next line of a request or an answer without its end. A line that is
// longer than [MaxLine] is an error.
func ReadLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			return nil, fmt.Errorf("a line is longer than %d bytes", MaxLine)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
