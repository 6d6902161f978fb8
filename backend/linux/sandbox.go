//go:build linux

package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/byname"
	"github.com/paddock-dev/paddock/backend/keep"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// sandbox is a running agent.
type sandbox struct {
	dir     *stateDir
	program string // the agent's
	plan    *builder
	egress  *byname.Process // nil without rules for the network
	gateway []int           // the sockets of the gateway, on their way to it
	// sshAgent is what commands may use of the caller's SSH agent, nil for nothing, and
	// sshAgentConn a connection to that, on its way to the egress process.
	sshAgent     *egress.SSHAgent
	sshAgentConn int
	group        *control // nil if no control groups can be used
	bare         bool     // it has no namespaces
	child        *keep.Process
	pid          int
	pidfd        int
	control      *os.File
	files        []*os.File        // on their way to the agent
	copies       *os.File          // the directory of the files that commands have copies of, or nil
	copied       map[string]string // the files of the host that they have copies of, and where in copies
	helpers      sync.WaitGroup    // processes that were needed to make files
	isolation    policy.Isolation
	done         chan struct{}      // closed when the kernel has reported the agent's end
	failed       error              // why the agent's program was not executed, final with done
	status       syscall.WaitStatus // of the agent, final with done

	mu      sync.Mutex
	spare   net.Conn // a connection made in advance, nil once it is taken
	spareAt time.Time

	stop  sync.Once
	death backend.Death
}

func (s *sandbox) ID() string { return s.dir.ID }

// Isolation returns what holds. Without its egress process a sandbox reaches nothing.
func (s *sandbox) Isolation() policy.Isolation { return s.egress.Holds(s.isolation) }

// Egress returns a client of the egress process, or nil if the sandbox has none.
func (s *sandbox) Egress() *egress.Client { return s.egress.Client() }

func (s *sandbox) Done() <-chan struct{} { return s.done }

// Dial connects to the agent.
func (s *sandbox) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-s.done:
		return nil, backend.ErrGone
	default:
	}
	if conn := s.takeSpare(); conn != nil {
		return conn, nil
	}
	return state.Dial(ctx, s.dir.Path)
}

// spareLife is how long the connection made in advance can be used: well below
// the time that an agent waits for a request.
const spareLife = 10 * time.Second

// takeSpare returns the connection made in advance, once, or nil if it is too old.
func (s *sandbox) takeSpare() net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conn := s.spare
	s.spare = nil
	if conn != nil && time.Since(s.spareAt) > spareLife {
		_ = conn.Close()
		return nil
	}
	return conn
}

// reap waits for the end of the agent.
//
// The agent is the init of the sandbox's pid namespace, so the kernel reports its end only after
// that of every process inside (pid_namespaces(7)).
func (s *sandbox) reap() {
	status, ours := s.child.Reap()
	if ours {
		s.status = status
		close(s.done)
	}
}

// kill ends the sandbox at once and waits for its end. The functions in meanwhile
// run while the kernel takes the sandbox apart.
func (s *sandbox) kill(meanwhile ...func()) {
	_ = s.control.Close()
	s.group.kill()
	_ = unix.PidfdSendSignal(s.pidfd, unix.SIGKILL, nil, 0)
	if conn := s.takeSpare(); conn != nil {
		_ = conn.Close()
	}
	for _, f := range meanwhile {
		f()
	}
	<-s.done
	_ = unix.Close(s.pidfd)
}

// Stop ends the sandbox and removes its state. Within the grace period the agent
// may end by itself.
func (s *sandbox) Stop(ctx context.Context, grace time.Duration) (backend.Death, error) {
	s.stop.Do(func() {
		hurry := ctx.Done()
		if s.bare {
			// Without namespaces the agent itself ends the processes that it has started.
			grace, hurry = max(grace, tidyTime), nil
		}
		if grace > 0 {
			_ = s.control.Close()
			// An agent that somebody has stopped would not see the closed socket.
			_ = unix.PidfdSendSignal(s.pidfd, unix.SIGCONT, nil, 0)
			select {
			case <-s.done:
			case <-time.After(grace):
			case <-hurry:
			}
		}
		s.kill(func() { s.death.Log = s.dir.Log() }, s.dir.Empty)
		s.egress.End() // after the last command
		s.death.Proved = !s.bare || s.status.Exited() && s.status.ExitStatus() == 0
		if s.group != nil {
			s.death.Proved = s.group.awaitEmpty(tidyTime)
			s.group.remove()
		}
		s.death.Copies = s.readCopies()
		s.dir.remove() // only now: a lent id is in use until the kernel has reported the end
	})
	return s.death, nil
}

// Freeze stops every command, through the control group that holds them all. The
// agent keeps running.
func (s *sandbox) Freeze(ctx context.Context) error {
	if s.group == nil {
		return noGroup("freeze")
	}
	return s.group.work.Freeze(ctx)
}

// Thaw makes the commands continue.
func (s *sandbox) Thaw(ctx context.Context) error {
	if s.group == nil {
		return noGroup("thaw")
	}
	return s.group.work.Thaw(ctx)
}

func noGroup(op string) error {
	return backend.Failed("cgroup", op, "the commands", errors.New("they have no control group"), "see paddock doctor for what control groups need here")
}

// tidyTime is how long an agent without namespaces may take to end everything it started.
const tidyTime = 10 * time.Second

// explain adds to err why the agent did not answer: its program was not executed,
// or it wrote something to its log before it ended.
func (s *sandbox) explain(err error) error {
	var e *backend.StartError
	if !errors.As(err, &e) {
		return err
	}
	if s.failed != nil && (e.Stage == "boot" || e.Stage == "verify") {
		return s.failed
	}
	if e.Stage != "boot" {
		return err
	}
	text := s.dir.Log()
	if e.Err == nil && s.status.Exited() && text == "" {
		// It closed the control socket by ending. paddock-agent would have said why.
		e.Op, e.Object, e.Errno, e.Hint = "await the agent", "", 0, agentHint
		e.Cause = fmt.Sprintf("%s ended with exit status %d and no message: it is not paddock-agent", s.program, s.status.ExitStatus())
	}
	if text != "" {
		line, _, _ := strings.Cut(text, "\n")
		e.Cause = strings.TrimPrefix(e.Cause+": "+line, ": ")
	}
	return err
}

const agentHint = "set PADDOCK_AGENT to the paddock-agent of this release, or unset it and keep paddock-agent beside paddock"
