package keeper

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/internal/relay"
	"github.com/paddock-dev/paddock/internal/stdiomux"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/wire"
)

// lastWords is how long the end of a wall that says nothing any more is awaited,
// to tell how it ended.
const lastWords = 2 * time.Second

// begin starts the wall and the agent behind it.
func (k *keeper) begin() (*Ready, *Failure) {
	w, err := startWall(&k.order)
	if err != nil {
		return nil, startFailure(&k.order, err)
	}
	k.wall = w
	deadline := time.Now().Add(k.order.Timeout)
	_, _ = w.in.SetDeadline(deadline), w.out.SetDeadline(deadline)
	begun := make(chan struct{})
	defer close(begun)
	go func() {
		select {
		case <-k.over: // then nobody waits for an agent
			_, _ = w.in.SetDeadline(time.Unix(1, 0)), w.out.SetDeadline(time.Unix(1, 0))
		case <-begun:
		}
	}()
	h := &handshake{keeper: k}
	if k.order.Upload > 0 {
		if failed := h.upload(); failed != nil {
			return nil, failed
		}
	}
	ready, failed := h.agent()
	if failed == nil {
		_, _ = w.in.SetDeadline(time.Time{}), w.out.SetDeadline(time.Time{})
		k.rest = h.read
	}
	return ready, failed
}

func startFailure(o *Order, err error) *Failure {
	f := &Failure{Stage: StageWall, Op: "start", Object: o.Argv[0]}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		f.Cause = err.Error()
		return f
	}
	f.Errno = int(errno)
	var failed *clone.Error
	if errors.As(err, &failed) && failed.Stage == clone.StageDir {
		f.Op, f.Object = "enter", o.Dir
	} else if errno == unix.ENOENT || errno == unix.EACCES || errno == unix.ENOEXEC {
		f.Hint = "name a program that exists and can be executed"
	}
	return f
}

// handshake reads what comes before the connections.
type handshake struct {
	*keeper
	read   []byte // and not understood yet
	banner []byte // what was printed before the agent spoke, the end of it
}

// upload waits for a shell inside, sends the agent, and has it checked.
func (h *handshake) upload() *Failure {
	if failed := h.expect("ready"); failed != nil {
		return failed
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{h.wall.in}, struct{ io.Reader }{io.LimitReader(h.program, h.order.Upload)}, make([]byte, 256<<10))
	if err != nil && !errors.Is(err, unix.EPIPE) { // where nobody reads any more, it is said why
		return h.fail(StageUpload, "send", "the agent", err)
	}
	return h.expect("done")
}

// expect waits for a line of the script's.
func (h *handshake) expect(word string) *Failure {
	mark := []byte(UploadMark + h.order.UploadNonce + " ")
	var line []byte
	err := h.until(func() (bool, error) {
		at := bytes.Index(h.read, mark)
		if at > wire.MaxBanner || at < 0 && len(h.read) > wire.MaxBanner+len(mark) {
			return false, fmt.Errorf("more than %d bytes came before its answer", wire.MaxBanner)
		}
		if at < 0 {
			return false, nil
		}
		l, rest, whole := bytes.Cut(h.read[at+len(mark):], []byte("\n"))
		if whole {
			line = bytes.TrimRight(l, "\r")
			h.keep(h.read[:at])
			h.read = rest
		}
		return whole, nil
	})
	switch why, failed := bytes.CutPrefix(line, []byte("failed ")); {
	case err != nil:
		return h.fail(StageUpload, "await", "a shell inside", err)
	case failed:
		return h.fail(StageUpload, "upload", "the agent", errors.New(text.Printable(string(text.Prefix(why, 300)), '?')))
	case string(line) != word:
		return h.fail(StageUpload, "upload", "the agent", fmt.Errorf("the shell inside says %q, where %q was awaited", text.Printable(string(text.Prefix(line, 300)), '?'), word))
	}
	return nil
}

// agent sends the guest's line and waits for the answer.
func (h *handshake) agent() (*Ready, *Failure) {
	if _, err := h.wall.in.Write(h.order.Line); err != nil && !errors.Is(err, unix.EPIPE) {
		return nil, h.fail(StageAgent, "speak to", "the agent", err)
	}
	var ready *wire.GuestReady
	err := h.until(func() (found bool, err error) {
		var banner, rest []byte
		ready, banner, rest, err = wire.FindGuestReady(h.read, h.order.Nonce)
		if found = ready != nil || err != nil; found {
			h.keep(banner)
			h.read = rest
		}
		return found, err
	})
	if err != nil {
		return nil, h.fail(StageAgent, "await", "the agent", err)
	}
	if f := ready.Failed; f != nil {
		return nil, &Failure{Stage: StageAgent, Op: "start", Object: "the agent", Errno: f.Errno, Cause: f.Message, Hint: f.Hint, Said: h.said()}
	}
	return &Ready{Guest: *ready, Banner: h.keptBanner()}, nil
}

// until reads until found says so.
func (h *handshake) until(found func() (bool, error)) error {
	buf := make([]byte, 32<<10)
	for {
		if ok, err := found(); ok || err != nil {
			return err
		}
		n, err := h.wall.out.Read(buf)
		h.read = append(h.read, buf[:n]...)
		if n == 0 && err != nil {
			h.keep(h.read)
			return err
		}
	}
}

// keep keeps the end of what was printed.
func (h *handshake) keep(text []byte) {
	h.banner = append(h.banner, text...)
	h.banner = h.banner[max(0, len(h.banner)-MaxSaid):]
}

// keptBanner returns what was printed, unless that may be what was sent.
func (h *handshake) keptBanner() []byte {
	if bytes.Contains(h.banner, []byte(h.order.Nonce)) {
		return nil
	}
	return h.banner
}

// said returns the end of what the wall said.
func (h *handshake) said() []byte {
	text := h.wall.errors.get()
	if bytes.Contains(text, []byte(h.order.Nonce)) {
		text = nil
	}
	if banner := bytes.TrimSpace(h.keptBanner()); len(banner) > 0 {
		text = append(append(bytes.TrimSpace(text), '\n'), banner...)
	}
	return text[max(0, len(text)-MaxSaid):]
}

// fail says why the wall does not get to the agent.
func (h *handshake) fail(stage, op, object string, err error) *Failure {
	f := &Failure{Stage: stage, Op: op, Object: object, Cause: err.Error()}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		f.Cause = fmt.Sprintf("it did not answer within %v", h.order.Timeout)
	case errors.Is(err, io.EOF):
		f.Cause = "it closed its standard output"
		select {
		case <-h.wall.ended:
			f.Cause = describe(h.wall.status)
		case <-time.After(lastWords):
		}
	}
	if bytes.Contains(h.banner, []byte(h.order.Nonce)) {
		f.Hint = "the wall gives back what it is sent, as a terminal does: it must give a plain pipe"
	}
	select {
	case <-h.wall.errors.done:
	case <-time.After(100 * time.Millisecond): // others may hold it open
	}
	f.Said = h.said()
	return f
}

// serve joins connections to the sandbox's socket with those to the agent. The
// channel is closed when there can be none any more.
func (k *keeper) serve() (<-chan struct{}, error) {
	mux, err := stdiomux.Dial(&prefixed{k.rest, k.wall.out}, k.wall.in)
	if err != nil {
		return nil, err
	}
	k.mux = mux
	go func() {
		for {
			conn, err := k.listener.Accept()
			if err != nil {
				return
			}
			go func() {
				stream, err := mux.DialContext(context.Background())
				if err != nil {
					_ = conn.Close()
					return
				}
				relay.Join(conn, stream)
			}()
		}
	}()
	return mux.Done(), nil
}

// prefixed reads what was read ahead, then the rest.
type prefixed struct {
	ahead []byte
	*os.File
}

// Read reads.
func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.ahead) > 0 {
		n := copy(b, p.ahead)
		p.ahead = p.ahead[n:]
		return n, nil
	}
	return p.File.Read(b)
}
