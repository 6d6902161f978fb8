package namespace

import (
	"encoding/json"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
)

// listen reads what children report.
func (h *helper) listen(report *os.File) {
	defer close(h.told)
	for {
		var r clone.Report
		if n, err := report.Read(r.Bytes()[:]); err != nil || n != clone.ReportSize {
			return
		}
		switch r.Kind {
		case clone.Reached:
			if err := h.release(); err != nil {
				h.failed = asFailure(err)
				_ = unix.Kill(h.child, unix.SIGKILL)
			}
		case clone.Failed:
			if h.failed == nil {
				h.failed = h.explain(r)
			}
		case clone.Ended:
			h.status <- uint32(r.Value)
		}
	}
}

// release writes the maps of a child that waits for it, and lets it go on.
func (h *helper) release() error {
	if h.group != nil {
		pids, err := h.group.Procs()
		h.holds.Store(err == nil && len(pids) > 0)
	}
	if h.order.Unshare != nil {
		if err := h.order.Unshare.writeMaps(h.child); err != nil {
			return err
		}
	}
	_, err := h.open.Write([]byte{0})
	return err
}

// reap waits for children until there is none.
func (h *helper) reap() {
	defer close(h.dead)
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return
		case pid == h.child:
			h.ended <- uint32(ws)
		}
	}
}

// obey does what the caller wants, until there is none.
func (h *helper) obey(in *json.Decoder) {
	defer close(h.kill)
	for {
		var m message
		if err := in.Decode(&m); err != nil || m.Kill {
			return
		}
		if pid := h.commandPID(); pid > 0 {
			_ = unix.Kill(pid, m.Signal)
		}
	}
}

// watch waits for the end of the command, and makes that the end of all.
func (h *helper) watch() answer {
	ended := true
	status := uint32(unix.SIGKILL)
	select {
	case status = <-h.status:
	case status = <-h.ended:
		if h.forks > 0 {
			h.hear(&status)
		}
	case <-h.kill:
		ended = false
	}
	a := h.end(ended)
	a.Status = status
	select {
	case <-h.told:
		a.Failed = h.failed
	case <-time.After(time.Second): // something holds on to it
	}
	return a
}

// hear takes what the first child told of the command before it ended itself.
func (h *helper) hear(status *uint32) {
	select {
	case *status = <-h.status:
		return
	case <-h.told:
	case <-time.After(time.Second):
	}
	select {
	case *status = <-h.status:
	default: // it has told nothing
	}
}
