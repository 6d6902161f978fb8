package paddock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/cache"
	"github.com/paddock-dev/paddock/backend/keep/order"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/backend/state/kept"
	"github.com/paddock-dev/paddock/internal/run"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/obeyed"
)

// reasons are what a record says about an end, by what the keeper says.
var reasons = map[string]string{
	order.AskedFor: "paddock stop ended it",
	order.Died:     "its agent ended by itself",
	order.TooOld:   "its lifetime was up",
	order.TooIdle:  "it was idle",
}

// EndKept does the work of the end of a sandbox of [Create], in the process that its keeper has
// become: args are those after [EndVerb], and the keeper's descriptors are open. describe says
// what the commands have left, for the record.
func EndKept(args []string, opts Options, describe func(Changes) string) error {
	if len(args) != 5 {
		return errors.New("cannot end a sandbox: only its keeper starts this")
	}
	files, err1 := strconv.Atoi(args[3])
	asking, err2 := strconv.Atoi(args[4])
	reason := reasons[args[2]]
	if err := errors.Join(err1, err2); err != nil || reason == "" || files < 3 || asking < 0 || files+asking > order.MaxFiles {
		return errors.New("cannot end a sandbox: only its keeper starts this")
	}
	var fds []*os.File
	for fd := order.FirstKept; fd < order.FirstKept+files+asking; fd++ {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			return errors.New("cannot end a sandbox: only its keeper starts this")
		}
		unix.CloseOnExec(fd)
		fds = append(fds, os.NewFile(uintptr(fd), "kept"))
	}
	e := &ending{root: args[0], id: args[1], reason: reason, socket: fds[1], asking: fds[files:]}
	_ = fds[0].Close() // the program, and the keeper's own handle of the agent's lifeline
	_ = fds[2].Close()
	end := e.run(fds[3:files], opts, describe)
	e.answer(end)
	if end.Error != "" {
		return errors.New(end.Error)
	}
	return nil
}

// ending is the end of one sandbox.
type ending struct {
	root, id, reason string
	socket           *os.File
	asking           []*os.File // whoever waits for the answer
	layer            *os.File   // the lock of the sandbox's layer, or nil
}

// run ends the sandbox, writes its record, and returns it. It holds the lock of the record from
// the beginning, so that nobody starts the sandbox again before its end is written down.
func (e *ending) run(files []*os.File, opts Options, describe func(Changes) string) kept.End {
	ctx, cancel := context.WithTimeout(context.Background(), actTime)
	entry, busy := kept.Act(ctx, e.root, e.id)
	cancel()
	if busy == nil {
		defer entry.Close()
	}
	end := kept.End{Reason: e.reason}
	s, err := e.adopt(files, opts)
	if err == nil {
		if r, rerr := kept.Read(e.root, e.id); rerr == nil {
			s.principal = r.Principal
		}
		var death backend.Death
		death, err = s.stop()
		end.Proved, end.Log, end.Left = death.Proved, death.Log, describe(s.Changes())
		end.Changes = encoded(s.Changes())
	}
	if e.layer != nil {
		_ = e.layer.Close()
	}
	if end.At = time.Now().UTC(); err != nil {
		end.Error = err.Error()
	}
	if err = busy; err == nil {
		err = e.write(entry, &end)
	}
	if err != nil {
		end.Error = fmt.Sprintf("cannot write the record of sandbox %s: %v", e.id, err)
	}
	return end
}

// maxChanges bounds the changes in a record, in bytes.
const maxChanges = 1 << 20

// encoded returns changes for the record, or nil if there are none, or too many.
func encoded(c Changes) json.RawMessage {
	text, err := json.Marshal(c)
	if c.Empty() || err != nil || len(text) > maxChanges {
		return nil
	}
	return text
}

// write writes into the record how the sandbox has ended, or removes that, if its time was up and
// it was to be removed then. A sandbox whose layer has changes stays, since nobody has seen them.
func (e *ending) write(entry *kept.Entry, end *kept.End) error {
	r, err := kept.Read(e.root, e.id)
	if err != nil {
		return err
	}
	switch e.reason {
	case reasons[order.TooOld]:
		end.Reason = "its lifetime of " + text.Span(r.Life) + " was up"
	case reasons[order.TooIdle]:
		end.Reason = "it was idle for " + text.Span(r.Idle)
	}
	if r.Then == kept.ThenRemove && (e.reason == reasons[order.TooOld] || e.reason == reasons[order.TooIdle]) && end.Error == "" {
		changes, err := unlanded(context.Background(), e.root, e.id)
		closed := errors.Is(err, fs.ErrPermission) // by commands, which is a change
		if err == nil && changes == 0 {
			if err = removeLayer(context.Background(), e.root, e.id); err == nil {
				return entry.Remove(r.Key())
			}
		}
		switch {
		case changes > 0:
			end.Reason += "; it was not removed, as it has changes that have not landed: " + strconv.Itoa(changes)
		case closed:
			end.Reason += "; it was not removed, as it has changes that have not landed"
		default:
			end.Error = "cannot remove sandbox " + e.id + ": " + err.Error()
		}
	}
	r.Status, r.End = kept.Stopped, end
	return entry.Write(*r)
}

// adopt makes the sandbox this process's own.
func (e *ending) adopt(files []*os.File, opts Options) (*Sandbox, error) {
	text, err := hostpath.Read(context.Background(), state.Path(e.root, e.id), state.LegacyName, maxSpec)
	var own legacy
	if err == nil {
		err = json.Unmarshal(text, &own)
	}
	be, ok := run.DefaultBackend().(backend.Keepable)
	if err == nil && (!ok || own.Files < 0 || own.Caches < 0 || len(files) < own.Files+own.Caches) {
		err = os.ErrInvalid
	}
	if err != nil {
		return nil, fmt.Errorf("cannot end sandbox %s: %w", e.id, err)
	}
	wall, err := be.Adopt(e.root, own.Wall, files[:own.Files])
	if err != nil {
		return nil, err
	}
	s := &Sandbox{wall: wall, spec: Spec(own.Spec), state: e.root, stays: &stays{}, upkeep: func() {}, stopped: make(chan struct{})}
	files = files[own.Files:]
	if own.Before && len(files) > 0 {
		e.before(s, state.AdoptUnreported(e.root, e.id, files[0]), opts)
		files = files[1:]
	}
	if own.Layer && len(files) > 0 {
		e.layer, files = files[0], files[1:]
	}
	for _, f := range files {
		s.stays.used = append(s.stays.used, cache.Adopt(f))
	}
	return s, nil
}

// before gives the sandbox the state before its commands ran. If nobody waits for an answer, the
// next start of a sandbox reports what has changed, since nobody would see it now.
func (e *ending) before(s *Sandbox, u *state.Unreported, opts Options) {
	text, err := u.Text()
	if err == nil {
		s.before, err = obeyed.Decode(text)
	}
	if err != nil || len(e.asking) == 0 {
		return // it stays stored
	}
	s.kept, s.planted = u, opts.Planted
}

// answer tells everybody who waits how the sandbox has ended.
func (e *ending) answer(end kept.End) {
	text, err := json.Marshal(end)
	if err != nil {
		return
	}
	for {
		fd, _, err := unix.Accept4(int(e.socket.Fd()), unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err != nil {
			break
		}
		e.asking = append(e.asking, os.NewFile(uintptr(fd), "asking"))
	}
	var wait sync.WaitGroup
	for _, f := range e.asking {
		wait.Go(func() {
			_ = unix.SetsockoptTimeval(int(f.Fd()), unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 2})
			_ = unix.Sendto(int(f.Fd()), text, unix.MSG_NOSIGNAL, nil)
			_ = f.Close()
		})
	}
	wait.Wait()
}
