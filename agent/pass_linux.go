package agent

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
)

// maxPassed is how many descriptors a request may bring.
const maxPassed = 2

// fileReceiver reads a connection and collects the descriptors that arrive with the
// data, for the request that they belong to.
type fileReceiver struct {
	net.Conn
	unix *net.UnixConn // nil if the connection cannot pass descriptors

	mu     sync.Mutex
	files  []*os.File
	excess bool // more came than are allowed
	closed bool
}

// Read reads as the connection does.
func (p *fileReceiver) Read(b []byte) (int, error) {
	if p.unix == nil {
		return p.Conn.Read(b)
	}
	var oob [32]byte // has room for more than are allowed; the kernel closes the rest
	n, oobn, flags, _, err := p.unix.ReadMsgUnix(b, oob[:])
	if oobn > 0 || flags&unix.MSG_CTRUNC != 0 {
		p.add(oob[:oobn], flags&unix.MSG_CTRUNC != 0)
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF // it is wrapped, and an io.Reader must return it bare
	}
	return max(n, 0), err
}

// add adds the descriptors of a message, at most as many as a request
// may bring. The runtime has made them close-on-exec.
func (p *fileReceiver) add(oob []byte, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	messages, err := unix.ParseSocketControlMessage(oob)
	p.excess = p.excess || cut || err != nil
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		p.excess = p.excess || err != nil
		for _, fd := range fds {
			if len(p.files) == maxPassed || p.closed {
				p.excess = true
				_ = unix.Close(fd)
				continue
			}
			p.files = append(p.files, os.NewFile(uintptr(fd), "passed"))
		}
	}
}

// take returns the descriptors that came with a request.
func (p *fileReceiver) take() *passedFiles {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := &passedFiles{p.files, p.excess}
	p.files, p.excess = nil, false
	return taken
}

// Close also closes descriptors that were not taken, or that come later.
func (p *fileReceiver) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.take().close()
	return p.Conn.Close()
}

// passedFiles holds the descriptors that came with one request.
type passedFiles struct {
	files  []*os.File
	excess bool
}

// close closes them. It may be called again.
func (p *passedFiles) close() { spawn.CloseFiles(p.files) }

// unfit returns why a file cannot be a command's output, "" if it can. Anything but
// the writing end of a pipe might give a command more than a place to write.
func unfit(f *os.File) (reason string) {
	raw, err := f.SyscallConn()
	if err != nil {
		return "cannot be used"
	}
	var st unix.Stat_t
	flags, serr := 0, error(nil)
	err = raw.Control(func(fd uintptr) {
		if serr = unix.Fstat(int(fd), &st); serr == nil {
			flags, serr = unix.FcntlInt(fd, unix.F_GETFL, 0)
		}
	})
	switch {
	case err != nil || serr != nil:
		return "cannot be looked at"
	case st.Mode&unix.S_IFMT != unix.S_IFIFO || flags&unix.O_PATH != 0:
		return "is not a pipe"
	case flags&unix.O_ACCMODE != unix.O_WRONLY:
		return "is not the writing end of a pipe alone"
	case flags&unix.O_NONBLOCK != 0:
		return "does not block"
	}
	return ""
}
