//go:build linux

package state

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
)

// IsID reports whether a text has the form of an id of [backend.NewID].
func IsID(text string) bool {
	random, ok := strings.CutPrefix(text, "pd-")
	return ok && len(random) == 13 && strings.Trim(random, "abcdefghijklmnopqrstuvwxyz234567") == ""
}

// Attached is a running sandbox of another process of the same user. Stop detaches from
// it; the sandbox itself ends with its owner.
type Attached struct {
	dir       string
	id        string
	isolation policy.Isolation
	dial      func(ctx context.Context, dir string) (net.Conn, error)
	wake      *os.File // closed by Stop, to end the wait
	done      chan struct{}
	once      sync.Once
}

// unknownError is the error of an id that no sandbox has, or has any more.
type unknownError struct{}

func (unknownError) Error() string { return "no such sandbox" }

// Unwrap returns [backend.ErrGone].
func (unknownError) Unwrap() error { return backend.ErrGone }

// Attach finds the sandbox with this id below root. An invalid or unknown id, and the id
// of a sandbox that has ended, is an error that wraps [backend.ErrGone].
func Attach(root, id string) (*Attached, error) {
	gone := func(why string) error { return fmt.Errorf("%w: %s", backend.ErrGone, why) }
	if !IsID(id) {
		return nil, unknownError{}
	}
	dir := filepath.Join(root, sandboxesDir, id)
	r, err := (*Record)(nil), Check(root)
	if err == nil {
		r, err = Read(dir)
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, unknownError{}
	case err != nil:
		return nil, err
	case r.Isolation == nil:
		return nil, errors.New("it is being started")
	}
	// Do not try the lock: taking it, even for a moment, would look like an owner
	// to other processes.
	fd, err := unix.PidfdOpen(r.PID, 0)
	if err != nil || !Alive(r.PID, r.Start) {
		if err == nil {
			_ = unix.Close(fd)
		}
		return nil, gone("its agent has ended")
	}
	woken, wake, err := os.Pipe()
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	a := &Attached{dir: dir, id: id, isolation: *r.Isolation, dial: Dial, wake: wake, done: make(chan struct{})}
	if r.Kept {
		a.dial = DialKept
	}
	go func() { // waits for the end of the agent or its keeper, or for Stop
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: int32(woken.Fd()), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		_ = woken.Close()
		_ = unix.Close(fd)
		close(a.done)
	}()
	return a, nil
}

// ID returns the sandbox's name.
func (a *Attached) ID() string { return a.id }

// Isolation returns the isolation as its owner has verified it.
func (a *Attached) Isolation() policy.Isolation { return a.isolation }

// Done returns a channel that is closed when the sandbox has ended, or after Stop.
func (a *Attached) Done() <-chan struct{} { return a.done }

// Dial connects to the agent.
func (a *Attached) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-a.done:
		return nil, backend.ErrGone
	default:
	}
	return a.dial(ctx, a.dir)
}

// Egress returns a client of the sandbox's egress process, or nil if it has none.
func (a *Attached) Egress() *egress.Client {
	if !policy.ByName(a.isolation.Network) {
		return nil
	}
	return &egress.Client{Dial: func(ctx context.Context) (net.Conn, error) { return DialEgress(ctx, a.dir) }}
}

// Stop detaches from the sandbox, which lives on. It proves nothing.
func (a *Attached) Stop(context.Context, time.Duration) (backend.Death, error) {
	a.once.Do(func() { _ = a.wake.Close() })
	<-a.done
	return backend.Death{}, nil
}

// Running is a sandbox whose agent, or the keeper of the pipe to it, lives.
type Running struct {
	ID string
	Record
}

// List returns the sandboxes below root that run or are starting, the oldest first, but for those
// to skip by their ids. Their isolation is nil until they have started.
func List(root string, skip func(id string) bool) ([]Running, error) {
	entries, err := os.ReadDir(filepath.Join(root, sandboxesDir))
	if os.IsNotExist(err) {
		return nil, nil
	}
	var list []Running
	for _, e := range entries {
		if !IsID(e.Name()) || skip(e.Name()) {
			continue
		}
		// A sandbox without a record has ended, or has not started yet.
		r, rerr := Read(filepath.Join(root, sandboxesDir, e.Name()))
		if rerr == nil && Alive(r.PID, r.Start) {
			list = append(list, Running{e.Name(), *r})
		}
	}
	slices.SortStableFunc(list, func(a, b Running) int { return a.Created.Compare(b.Created) })
	return list, err
}
