//go:build linux

package piped

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/keeper"
	"github.com/paddock-dev/paddock/policy"
)

// endTime is how long a keeper may take to end the wall, beyond the grace period and
// the times of its clean-up commands.
const endTime = 12 * time.Second

// elsewhereGrace is the least time for an agent on another host to end its processes and to
// report that, because only the agent can. Stop does not wait longer than the agent takes.
const elsewhereGrace = 5 * time.Second

// sandbox is a running wall and its keeper.
type sandbox struct {
	dir       *state.Dir
	agent     string // the path of its program
	wall      Wall
	record    state.Record
	cmd       *exec.Cmd
	control   *os.File
	answers   chan keeper.Answer // one, or none
	isolation policy.Isolation
	done      chan struct{}
	ended     *keeper.Ended // nil if the keeper was killed; final with done

	stop  sync.Once
	death backend.Death
	err   error
}

func (s *sandbox) ID() string                  { return s.dir.ID }
func (s *sandbox) Isolation() policy.Isolation { return s.isolation }
func (s *sandbox) Done() <-chan struct{}       { return s.done }

// Dial connects to the agent, through the keeper.
func (s *sandbox) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-s.done:
		return nil, backend.ErrGone
	default:
	}
	return state.DialKept(ctx, s.dir.Path)
}

// Stop ends the wall and removes the state.
func (s *sandbox) Stop(ctx context.Context, grace time.Duration) (backend.Death, error) {
	s.stop.Do(func() {
		elsewhere := s.wall.Elsewhere != nil && s.wall.Elsewhere()
		if elsewhere {
			grace = max(grace, elsewhereGrace)
		}
		s.end(grace)
		s.death.Log = s.dir.Log()
		s.death.Proved = s.ended != nil && s.ended.Proved && (!elsewhere || s.ended.Exited && s.ended.Status == 0)
		if s.ended == nil || !s.ended.Cleaned {
			// Clean up as if this process had been killed too. If that fails,
			// later starts try again.
			s.dir.Abandon()
			state.Sweep(s.dir.Root, nil)
		} else {
			s.dir.Remove(nil)
		}
		if s.wall.Gone != nil { // in any case: after Stop the engine must not list it any more
			gone, err := s.wall.Gone(context.WithoutCancel(ctx))
			s.death.Proved, s.err = s.death.Proved && gone && err == nil, err
		}
	})
	return s.death, s.err
}

// end has the keeper end the wall, and kills the keeper if it does not answer in time.
func (s *sandbox) end(grace time.Duration) {
	_ = s.cmd.Process.Signal(unix.SIGCONT) // a keeper that somebody has stopped would not read the order
	text, _ := json.Marshal(keeper.Stop{Grace: grace})
	_ = s.control.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = s.control.Write(append(text, '\n'))
	limit := time.NewTimer(grace + endTime + time.Duration(len(s.wall.Cleanup))*(cleanupTimeout+endTime))
	defer limit.Stop()
	select {
	case <-s.done:
	case <-limit.C:
		_ = s.cmd.Process.Kill()
		<-s.done
	}
}
