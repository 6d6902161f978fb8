//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
)

// measureSession compares a command in a session with one in a bash that is
// driven over pipes, where a line that the shell prints marks the end.
func measureSession(ctx context.Context, b *bench) (err error) {
	s, err := b.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	session, err := s.OpenSession(ctx, paddock.SessionOptions{})
	if err != nil {
		return err
	}
	marker, err := startMarked(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, marker.stop()) }()
	own := &benchCase{name: "true in a session", run: func(ctx context.Context) (time.Duration, error) { return sessionTrue(ctx, session) }}
	peer := &benchCase{name: "true in a bash with markers, no walls", run: marker.true}
	rounds := b.rounds(2000, 200)
	if err := interleave(ctx, 20, rounds, own, peer); err != nil {
		return err
	}
	p50 := own.sample.median()
	b.add(times(fmt.Sprintf("a command in a shell that stays, %d rounds", rounds), time.Microsecond, peer, own, peer),
		atMost("a command in a session, p50", float64(p50.Microseconds())/1000, 0.3, "ms"))
	return nil
}

func sessionTrue(ctx context.Context, s *paddock.Session) (time.Duration, error) {
	began := time.Now()
	r, err := s.Run(ctx, paddock.SessionCommand{Text: "true"})
	took := time.Since(began)
	if err == nil && (r.ExitCode != 0 || r.TotalBytes != 0 || !r.StateKept) {
		err = fmt.Errorf("ended with %+v", r)
	}
	return took, err
}

// marked is a bash as other programs drive one.
type marked struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
}

func startMarked(ctx context.Context) (*marked, error) {
	cmd := exec.CommandContext(ctx, "/bin/bash")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &marked{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (m *marked) true(context.Context) (time.Duration, error) {
	began := time.Now()
	if _, err := io.WriteString(m.in, "true\nprintf 'done-marker %s\\n' $?\n"); err != nil {
		return 0, err
	}
	line, err := m.lines.ReadString('\n')
	took := time.Since(began)
	if err == nil && !strings.HasPrefix(line, "done-marker 0") {
		err = fmt.Errorf("the bash said %q", line)
	}
	return took, err
}

func (m *marked) stop() error {
	_ = m.in.Close()
	return m.cmd.Wait()
}
