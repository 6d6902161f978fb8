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
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/policy"
)

var errProtocol = errors.New("it speaks another version of the protocol")

// sandbox is a running agent.
type sandbox struct {
	dir       *stateDir
	program   string // the agent's
	plan      *builder
	group     *control // nil where there are no control groups to use
	bare      bool     // it has no namespaces
	pid       int
	pidfd     int
	control   *os.File
	files     []*os.File     // on their way to the agent
	copies    *os.File       // the directory with what commands have a copy of; nil: there is none
	helpers   sync.WaitGroup // processes that were needed for files
	isolation policy.Isolation
	done      chan struct{}      // closed when the kernel has reported the agent's end
	failed    error              // why the agent's program was not executed, final with done
	status    syscall.WaitStatus // of the agent, final with done

	mu      sync.Mutex
	spare   net.Conn // a connection made ahead, nil once it is taken
	spareAt time.Time

	stop  sync.Once
	death backend.Death
}

func (s *sandbox) ID() string                  { return s.dir.ID }
func (s *sandbox) Isolation() policy.Isolation { return s.isolation }
func (s *sandbox) Done() <-chan struct{}       { return s.done }

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

// spareLife is how long a connection made ahead is of use: well below the time
// that an agent waits for a request.
const spareLife = 10 * time.Second

// takeSpare gives the connection made ahead to the first who asks, if soon.
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

// reap waits for the agent. It is the init of the sandbox's pid namespace, so
// the kernel reports its end only after that of every process inside
// (pid_namespaces(7)).
func (s *sandbox) reap() {
	for {
		_, err := syscall.Wait4(s.pid, &s.status, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	close(s.done)
}

// kill ends the sandbox at once and waits for its end. What else there is to
// do is done while the kernel takes the sandbox apart.
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

// Stop ends the sandbox and removes its state. With a grace period the agent
// may end by itself first.
func (s *sandbox) Stop(ctx context.Context, grace time.Duration) (backend.Death, error) {
	s.stop.Do(func() {
		hurry := ctx.Done()
		if s.bare {
			// Without namespaces the agent itself ends what it started.
			grace, hurry = max(grace, tidyTime), nil
		}
		if grace > 0 {
			_ = s.control.Close()
			// One that somebody has stopped would not see it.
			_ = unix.PidfdSendSignal(s.pidfd, unix.SIGCONT, nil, 0)
			select {
			case <-s.done:
			case <-time.After(grace):
			case <-hurry:
			}
		}
		s.kill(func() { s.death.Log = s.dir.Log() }, s.dir.Empty)
		s.death.Proved = !s.bare || s.status.Exited() && s.status.ExitStatus() == 0
		if s.group != nil {
			s.death.Proved = s.group.awaitEmpty(tidyTime)
			s.group.remove()
		}
		s.death.Copies = s.readCopies()
		s.dir.remove() // only now: a lent id is in use until the kernel says otherwise
	})
	return s.death, nil
}

// Freeze stops every command, by the control group that holds them all. The
// agent goes on.
func (s *sandbox) Freeze(ctx context.Context) error {
	if s.group == nil {
		return noGroup("freeze")
	}
	return s.group.work.Freeze(ctx)
}

// Thaw lets the commands go on.
func (s *sandbox) Thaw(ctx context.Context) error {
	if s.group == nil {
		return noGroup("thaw")
	}
	return s.group.work.Thaw(ctx)
}

func noGroup(op string) error {
	return backend.Failed("cgroup", op, "the commands", errors.New("they have no control group"), "see paddock doctor for what control groups need here")
}

// tidyTime is what an agent without namespaces gets to end all that it started.
const tidyTime = 10 * time.Second

// explain finds the cause behind an agent that is not there: its program was
// not executed, or it left last words.
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
		// Its end closed the socket that it was spoken to on. An agent says why it ends.
		e.Op, e.Object, e.Errno, e.Hint = "await the agent", "", 0, agentHint
		e.Cause = fmt.Sprintf("%s ended with exit status %d and without a word: it is not paddock-agent", s.program, s.status.ExitStatus())
	}
	if text != "" {
		line, _, _ := strings.Cut(text, "\n")
		e.Cause += ": " + line
	}
	return err
}

const agentHint = "set PADDOCK_AGENT to the paddock-agent of this release, or unset it and keep paddock-agent beside paddock"
