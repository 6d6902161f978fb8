// Package egresstest stands for the egress process in tests of what asks it.
package egresstest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// Process answers clients as an egress process does, and has the records that a test adds.
type Process struct {
	mu      sync.Mutex
	network policy.Network
	records []egress.Record
	changed chan struct{}
	refuses *egress.Error
	// revision is how often the rules were replaced.
	revision uint64
	gone     bool
}

// New returns a process with rules.
func New(network policy.Network) *Process {
	return &Process{network: network, changed: make(chan struct{})}
}

// Client returns a client of the process.
func (p *Process) Client() *egress.Client {
	return &egress.Client{Dial: func(context.Context) (net.Conn, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.gone {
			return nil, errors.New("connection refused")
		}
		near, far := net.Pipe()
		go p.serve(far)
		return near, nil
	}}
}

// Add adds records.
func (p *Process) Add(records ...egress.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range records {
		r.Seq, r.Time = uint64(len(p.records))+1, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		p.records = append(p.records, r)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Rules returns the rules that it has now.
func (p *Process) Rules() policy.Network {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.network
}

// Refuse makes it refuse new rules.
func (p *Process) Refuse(err *egress.Error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = err
}

// Kill ends it: no client connects any more.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.gone = true
}

func (p *Process) serve(conn net.Conn) {
	defer conn.Close()
	var r egress.Request
	line, err := egress.ReadLine(bufio.NewReader(conn))
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		return
	}
	answer := func(a egress.Answer) error { return json.NewEncoder(conn).Encode(a) }
	if r.Op == egress.OpLog {
		p.log(r, conn, answer)
		return
	}
	if r.Op == egress.OpSet {
		p.mu.Lock()
		refuses := p.refuses
		if r.Revision != nil && *r.Revision != p.revision {
			refuses = &egress.Error{Message: "the rules were replaced meanwhile", Changed: true}
		}
		if refuses == nil {
			p.revision++
			_ = json.Unmarshal(*r.Network, &p.network)
		}
		p.mu.Unlock()
		if refuses != nil {
			_ = answer(egress.Answer{Error: refuses})
			return
		}
		p.Add(egress.Record{Kind: egress.KindRules})
	}
	p.mu.Lock()
	state := egress.State{Network: p.network, Revision: p.revision, Last: uint64(len(p.records))}
	for _, r := range p.records {
		switch r.Kind {
		case egress.KindDenied:
			state.Denied++
		case egress.KindConnection:
			state.Connections++
			state.Sent, state.Received = state.Sent+r.Sent, state.Received+r.Received
		}
	}
	p.mu.Unlock()
	_ = answer(egress.Answer{State: &state})
}

func (p *Process) log(r egress.Request, conn net.Conn, answer func(egress.Answer) error) {
	left := make(chan struct{})
	go func() { // until the client closes
		_, _ = conn.Read(make([]byte, 1))
		close(left)
	}()
	for after := r.After; ; {
		p.mu.Lock()
		found, changed := slices.Clone(p.records[min(after, uint64(len(p.records))):]), p.changed
		p.mu.Unlock()
		for _, record := range found {
			if answer(egress.Answer{Record: &record}) != nil {
				return
			}
			after = record.Seq
		}
		if !r.Follow {
			_ = answer(egress.Answer{Done: true})
			return
		}
		select {
		case <-changed:
		case <-left:
			return
		}
	}
}
