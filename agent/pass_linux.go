package agent

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/wire"
)

// maxPassed is how many descriptors a request may bring.
const maxPassed = 2

// passage reads a connection and keeps the descriptors that come with what it
// reads, for the request that they belong to.
type passage struct {
	net.Conn
	unix *net.UnixConn // nil where no descriptors can come

	mu     sync.Mutex
	files  []*os.File
	excess bool // more came than are allowed
	closed bool
}

func newPassage(conn net.Conn) *passage {
	c, _ := conn.(*net.UnixConn)
	return &passage{Conn: conn, unix: c}
}

// Read reads as the connection does.
func (p *passage) Read(b []byte) (int, error) {
	if p.unix == nil {
		return p.Conn.Read(b)
	}
	var oob [32]byte // has room for more than are allowed; the kernel closes what has none
	n, oobn, flags, _, err := p.unix.ReadMsgUnix(b, oob[:])
	if oobn > 0 || flags&unix.MSG_CTRUNC != 0 {
		p.keep(oob[:oobn], flags&unix.MSG_CTRUNC != 0)
	}
	if errors.Is(err, io.EOF) {
		err = io.EOF // it comes wrapped, and a Reader's must not be
	}
	return max(n, 0), err
}

// keep takes the descriptors out of a message, at most as many as a request
// may bring. The runtime has made them close-on-exec.
func (p *passage) keep(oob []byte, cut bool) {
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
func (p *passage) take() *passed {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken := &passed{p.files, p.excess}
	p.files, p.excess = nil, false
	return taken
}

// Close also closes what nobody took, and what may come yet.
func (p *passage) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.take().close()
	return p.Conn.Close()
}

// passed are the descriptors that one request brought.
type passed struct {
	files  []*os.File
	excess bool
}

// close may be called again.
func (p *passed) close() { spawn.CloseFiles(p.files) }

// check refuses descriptors that do not fit the request, or that a command
// should not have as its output.
func (p *passed) check(r *wire.ExecRequest) *wire.Error {
	bad := func(reason string) *wire.Error {
		return &wire.Error{Code: wire.CodeBadRequest, Object: "pass", Message: "cannot run the command: " + reason}
	}
	switch {
	case len(r.Pass) == 0:
		return nil
	case !slices.Equal(r.Pass, []string{"stdout"}) && !slices.Equal(r.Pass, []string{"stdout", "stderr"}):
		return bad(`pass must be ["stdout"] or ["stdout","stderr"]`)
	case !r.Stream || r.TTY != nil || r.MaxOutputBytes != 0 || len(r.RedactValues)+len(r.Redaction) > 0:
		return bad("pass needs stream, and neither tty, max_output_bytes, redact_values nor redaction")
	case p.excess || len(p.files) != len(r.Pass):
		return bad("other descriptors came with it than pass names")
	}
	for _, f := range p.files {
		if reason := unfit(f); reason != "" {
			return bad("the descriptor that was passed " + reason)
		}
	}
	return nil
}

// unfit returns why a file cannot be a command's output, "" where it can. What is
// no pipe might give a command more than a place to write.
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
		return "is no pipe"
	case flags&unix.O_ACCMODE != unix.O_WRONLY:
		return "is not the writing end of a pipe alone"
	case flags&unix.O_NONBLOCK != 0:
		return "does not block"
	}
	return ""
}
