package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/strictjson"
	"github.com/paddock-dev/paddock/policy"
)

const (
	mostControls   = 16
	controlTimeout = 10 * time.Second // for a request, and for each line of an answer
)

// serveControl answers clients until ctx ends. It closes the listener.
func (s *Server) serveControl(ctx context.Context, l net.Listener) {
	defer l.Close() // where ctx ended before what follows was called
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	slots := make(chan struct{}, mostControls)
	for ctx.Err() == nil {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			continue
		}
		conn, err := l.Accept()
		if err != nil {
			<-slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		s.running.Go(func() {
			defer func() { <-slots }()
			s.answerClient(ctx, conn)
		})
	}
}

// answerClient answers the request of a client, and closes its connection.
func (s *Server) answerClient(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	write := func(a egress.Answer) error {
		line, err := json.Marshal(a)
		if err != nil {
			return err
		}
		_ = conn.SetWriteDeadline(time.Now().Add(controlTimeout))
		_, err = conn.Write(append(line, '\n'))
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(controlTimeout))
	line, err := egress.ReadLine(bufio.NewReader(conn))
	if err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	request, network, err := parseRequestLine(line)
	if err != nil {
		_ = write(egress.Answer{Error: &egress.Error{Message: "invalid request: " + err.Error()}})
		return
	}
	switch request.Op {
	case egress.OpShow:
		state := s.State()
		_ = write(egress.Answer{State: &state})
	case egress.OpSet:
		state, err := s.setAt(network, request.Revision)
		if err != nil {
			_ = write(egress.Answer{Error: asError(err)})
			return
		}
		_ = write(egress.Answer{State: &state})
	case egress.OpLog:
		s.running.Go(func() { // a client that goes away ends the answer
			_, _ = conn.Read(make([]byte, 1))
			cancel()
		})
		err := s.records.each(ctx, request.After, request.Follow, func(r egress.Record) error {
			return write(egress.Answer{Record: &r})
		})
		if err == nil {
			_ = write(egress.Answer{Done: true})
		}
	}
}

// parseRequestLine reads a request, and the rules of one that sets them.
func parseRequestLine(line []byte) (egress.Request, policy.Network, error) {
	var r egress.Request
	if err := strictjson.Unmarshal(line, &r, strictjson.Options{NoNull: true}); err != nil {
		return r, policy.Network{}, err
	}
	if (r.Op == egress.OpSet) != (r.Network != nil) {
		return r, policy.Network{}, errors.New("set, and nothing else, has a network")
	}
	switch r.Op {
	case egress.OpShow, egress.OpLog:
		return r, policy.Network{}, nil
	case egress.OpSet:
	default:
		return r, policy.Network{}, errors.New("unknown op")
	}
	// A member that this process does not know could narrow what a rule opens.
	type strict policy.Network
	var network strict
	if word := ""; json.Unmarshal(*r.Network, &word) == nil {
		return r, policy.Network{Mode: word}, nil
	}
	err := strictjson.Unmarshal(*r.Network, &network, strictjson.Options{NoNull: true})
	return r, policy.Network(network), err
}
