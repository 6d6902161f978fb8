//go:build linux

package piped

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/keeper"
)

// answerGrace is how much longer than its order says a keeper may take to answer.
const answerGrace = 15 * time.Second

// startKeeper starts the keeper, which waits for its order. Its program is executed
// from the open file, because another file may be at its path by now.
func (s *sandbox) startKeeper(agent *os.File) error {
	channels, err := s.dir.Channels()
	if err != nil {
		return err
	}
	defer channels.CloseTheirs()
	s.control = channels.Control
	s.cmd = &exec.Cmd{Path: "/proc/self/fd/" + strconv.Itoa(keeper.ProgramFD), Args: []string{"paddock-agent", "keep"}, Env: []string{"GOMAXPROCS=2"}, Dir: "/", Stderr: channels.Log,
		ExtraFiles: []*os.File{channels.Theirs, channels.Listen, agent}, SysProcAttr: &syscall.SysProcAttr{Setsid: true}}
	if err := s.cmd.Start(); err != nil {
		_ = s.control.Close()
		return backend.Failed("keeper", "start", agent.Name(), err, "set PADDOCK_AGENT to the path of paddock-agent")
	}
	s.record.PID = s.cmd.Process.Pid
	if s.record.Start, err = state.StartTime(s.record.PID); err == nil {
		err = s.dir.Save(s.record)
	}
	if err != nil {
		_ = s.control.Close()
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return backend.Failed("state", "save", s.dir.Path, err, "")
	}
	go s.follow()
	return nil
}

// follow reads the keeper's answers until there are no more.
func (s *sandbox) follow() {
	defer close(s.done)
	in := bufio.NewReader(io.LimitReader(s.control, 1<<20))
	for {
		line, err := in.ReadBytes('\n')
		var a keeper.Answer
		if err != nil || json.Unmarshal(line, &a) != nil {
			break
		}
		if a.Ended != nil {
			s.ended = a.Ended
			break
		}
		s.answers <- a // there is room for both
	}
	close(s.answers)
	_ = s.cmd.Wait()
	_ = s.control.Close()
}

// begin sends the order and waits for the agent.
func (s *sandbox) begin(ctx context.Context, order *keeper.Order) (*keeper.Ready, error) {
	text, err := json.Marshal(order)
	if err != nil {
		return nil, backend.Failed("keeper", "order", "", err, "")
	}
	_ = s.control.SetWriteDeadline(time.Now().Add(order.Timeout))
	if _, err := s.control.Write(append(text, '\n')); err != nil {
		return nil, backend.Failed("keeper", "order", "", err, notAgent)
	}
	_ = s.control.SetWriteDeadline(time.Time{})
	late := time.NewTimer(order.Timeout + answerGrace)
	defer late.Stop()
	select {
	case a, ok := <-s.answers:
		switch {
		case !ok:
			return nil, backend.Failed("keeper", "await", "its answer", errors.New("it has ended"), notAgent)
		case a.Failed != nil:
			return nil, &refusal{failed: *a.Failed}
		case a.Ready == nil:
			return nil, backend.Failed("keeper", "await", "its answer", errors.New("it cannot be understood"), notAgent)
		}
		return a.Ready, nil
	case <-late.C:
		return nil, backend.Failed("keeper", "await", "its answer", errors.New("it did not come in time"), notAgent)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

const notAgent = "is it the paddock-agent of this release?"

// refusal is the failure that a keeper reported.
type refusal struct{ failed keeper.Failure }

// Error returns the cause. Callers never see it: explain makes a StartError of it.
func (r *refusal) Error() string { return r.failed.Cause }

// explain turns an error into the error for the caller.
func (s *sandbox) explain(ctx context.Context, err error) error {
	var r *refusal
	var e *backend.StartError
	var said string
	switch {
	case ctx.Err() != nil:
		e = backend.Interrupted(ctx, keeper.StageAgent, "the agent behind "+s.wall.Argv[0])
		if said = printable([]byte(s.death.Log)); said != "" {
			e.Cause += "; its output until then: " + lastLines(said)
		}
		return e
	case errors.As(err, &r):
		f := r.failed
		e = &backend.StartError{Stage: f.Stage, Op: f.Op, Object: f.Object, Errno: f.Errno, Cause: f.Cause, Hint: f.Hint}
		if said = printable(f.Said); said != "" {
			e.Cause += ": " + lastLines(said)
		}
		if e.Hint == "" && e.Op == "await" && lacksLibrary(s.agent, said) {
			e.Hint = "paddock-agent needs the C library of this machine, which may be missing there; build it without: CGO_ENABLED=0 go install github.com/paddock-dev/paddock/cmd/...@latest"
		}
	case errors.As(err, &e) && e.Stage == "keeper":
		if e.Hint == notAgent {
			// A keeper always answers, if only to say why it cannot start the wall.
			e.Errno, e.Cause = 0, s.agent+" ended without an answer: it is not paddock-agent"
			e.Hint = "set PADDOCK_AGENT to the paddock-agent of this release, or unset it and keep paddock-agent beside paddock"
		}
		if said = printable([]byte(s.death.Log)); said != "" {
			e.Cause += ": " + lastLines(said)
		}
	default:
		return err
	}
	if s.wall.Explain != nil {
		s.wall.Explain(e, said)
	}
	return e
}

// lacksLibrary reports whether an agent that was linked dynamically may have found no loader
// or no library behind the wall, by what the wall's programs said.
func lacksLibrary(agent, said string) bool {
	said = strings.ToLower(said)
	if !strings.Contains(said, "no such file") && !strings.Contains(said, "not found") {
		return false
	}
	f, err := os.Open(agent)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4096)
	n, _ := io.ReadFull(f, head) // of a shorter file, all of it
	return hostpath.ELFLoader(f, head[:n]) != ""
}

// lastLines returns the last lines of a text as one line: programs print the failure last.
func lastLines(said string) string {
	lines := strings.FieldsFunc(said, func(r rune) bool { return r == '\n' })
	const most = 4
	return strings.Join(lines[max(0, len(lines)-most):], "; ")
}

// printable makes a text safe to print. It keeps line ends.
func printable(log []byte) string {
	lines := strings.Split(strings.NewReplacer("\r", "", "\t", " ").Replace(string(log)), "\n")
	for i, line := range lines {
		lines[i] = text.Printable(line, unicode.ReplacementChar)
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}
