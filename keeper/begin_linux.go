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

// lastWords is how long to wait for the end of a wall that has closed its output,
// to report how it ended.
const lastWords = 2 * time.Second

// begin starts the wall and the agent behind it.
func (k *keeper) begin() (*Ready, *Failure) {
	w, err := startWall(&k.order)
	if err != nil {
		f := &Failure{Stage: StageWall, Op: "start", Object: k.order.Argv[0]}
		var errno syscall.Errno
		var failed *clone.Error
		switch {
		case !errors.As(err, &errno):
			f.Cause = err.Error()
		case errors.As(err, &failed) && failed.Stage == clone.StageDir:
			f.Errno, f.Op, f.Object = int(errno), "enter", string(k.order.Dir)
		default:
			f.Errno = int(errno)
			if errno == unix.ENOENT || errno == unix.EACCES || errno == unix.ENOEXEC {
				f.Hint = "name a program that exists and can be executed"
			}
		}
		return nil, f
	}
	k.wall = w
	deadline := time.Now().Add(k.order.Timeout)
	_, _ = w.in.SetDeadline(deadline), w.out.SetDeadline(deadline)
	begun := make(chan struct{})
	defer close(begun)
	go func() {
		select {
		case <-k.over: // the owner does not wait for an agent any more
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
	ready, failed := h.awaitAgent()
	if failed == nil {
		_, _ = w.in.SetDeadline(time.Time{}), w.out.SetDeadline(time.Time{})
		k.rest = h.read
	}
	return ready, failed
}

// handshake reads everything that comes before the connections.
type handshake struct {
	*keeper
	read   []byte // input that was read but not handled yet
	banner []byte // the end of the text that was printed before the agent's answer
}

// upload waits for a shell inside, sends the agent, and waits until the shell has
// checked it.
func (h *handshake) upload() *Failure {
	if failed := h.expect("ready"); failed != nil {
		return failed
	}
	_, err := io.CopyBuffer(struct{ io.Writer }{h.wall.in}, struct{ io.Reader }{io.LimitReader(h.program, h.order.Upload)}, make([]byte, 256<<10))
	if err != nil && !errors.Is(err, unix.EPIPE) { // after EPIPE, the output says why
		return h.fail(StageUpload, "send", "the agent", err)
	}
	return h.expect("done")
}

// expect waits for a line of the upload's script.
func (h *handshake) expect(word string) *Failure {
	mark := []byte(UploadMark + h.order.UploadNonce + " ")
	var line []byte
	err := h.readUntil(func() (bool, error) {
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
		return h.fail(StageUpload, "upload", "the agent", fmt.Errorf("the shell inside printed %q instead of %q", text.Printable(string(text.Prefix(line, 300)), '?'), word))
	}
	return nil
}

// awaitAgent sends the guest's line and waits for the agent's answer.
func (h *handshake) awaitAgent() (*Ready, *Failure) {
	if _, err := h.wall.in.Write(h.order.Line); err != nil && !errors.Is(err, unix.EPIPE) {
		return nil, h.fail(StageAgent, "speak to", "the agent", err)
	}
	var ready *wire.GuestReady
	err := h.readUntil(func() (found bool, err error) {
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

// readUntil reads until found returns true or an error.
func (h *handshake) readUntil(found func() (bool, error)) error {
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

// keep adds text to the banner, and cuts its beginning if it becomes too long.
func (h *handshake) keep(text []byte) {
	h.banner = append(h.banner, text...)
	h.banner = h.banner[max(0, len(h.banner)-MaxSaid):]
}

// keptBanner returns the banner. If the nonce is in it, it returns nil, because the banner may
// then be an echo of the keeper's input, secrets included.
func (h *handshake) keptBanner() []byte {
	if bytes.Contains(h.banner, []byte(h.order.Nonce)) {
		return nil
	}
	return h.banner
}

// said returns the end of the wall's output.
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

// fail returns why the agent cannot be reached.
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
		f.Hint = "the wall echoes its input, as a terminal does: it must provide a plain pipe"
	}
	select {
	case <-h.wall.errors.done:
	case <-time.After(100 * time.Millisecond): // other processes may keep it open
	}
	f.Said = h.said()
	return f
}

// serve joins connections to the sandbox's socket with connections to the agent.
// The channel is closed when the agent can be reached no more.
func (k *keeper) serve() (<-chan struct{}, error) {
	mux, err := stdiomux.Dial(&output{k.rest, k.wall.out}, k.wall.in)
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

// output reads the wall's output: first the bytes that were read ahead, then the rest.
type output struct {
	ahead []byte
	from  *os.File
}

// Read reads the bytes that were read ahead first.
func (o *output) Read(b []byte) (int, error) {
	if len(o.ahead) > 0 {
		n := copy(b, o.ahead)
		o.ahead = o.ahead[n:]
		return n, nil
	}
	return o.from.Read(b)
}

// Close ends reading, and keeps the pipe open: the wall may have more to copy, and would be killed
// by SIGPIPE, where its status says that the agent has ended everything.
func (o *output) Close() error { return o.from.SetReadDeadline(time.Unix(1, 0)) }
