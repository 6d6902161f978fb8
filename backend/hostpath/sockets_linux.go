package hostpath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/dirfd"
)

// socketAt judges what is at a path, without telling a server of it: to connect a datagram socket
// reaches no queue of the other side, and for one of another type the kernel answers that it is one
// (EPROTOTYPE). It looks the inode up among those of all network namespaces. Nobody can bind an
// inode again, so that one which nobody has bound stays harmless.
func socketAt(at string) (id confine.FileID, state socketState) {
	fd, err := dirfd.Open(unix.AT_FDCWD, at, unix.O_PATH|unix.O_NOFOLLOW)
	if errors.Is(err, unix.EACCES) {
		return id, socketClosed
	}
	if err != nil {
		return id, socketNone
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return id, socketNone
	}
	id = confine.FileID{Dev: st.Dev, Ino: st.Ino}
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return id, socketBound
	}
	defer func() { _ = unix.Close(s) }()
	// By the handle: a path may be longer than the address of a socket.
	err = unix.Connect(s, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d", fd)})
	if errors.Is(err, unix.ECONNREFUSED) {
		return id, socketNone
	}
	return id, socketBound
}

// sock_diag(7), for Unix sockets.
const (
	diagByFamily  = 20
	diagShowName  = 1
	diagShowVFS   = 2
	diagAttrName  = 0
	diagAttrVFS   = 1
	diagRequest   = 24 // bytes
	diagMessage   = 16 // bytes, before the attributes
	diagTime      = 2 * time.Second
	stateClosed   = 7 // bound, or a datagram socket
	stateListens  = 10
	listAccepting = 1 << 16 // __SO_ACCEPTCON, in /proc/net/unix
)

// boundSockets lists the sockets of this network namespace that are bound to files. If the kernel
// cannot be asked for where these lie, partial is true, and the names are those of /proc/net/unix.
func boundSockets() (list []boundSocket, partial bool) {
	if list, err := askBound(); err == nil {
		return list, false
	}
	text, _ := os.ReadFile("/proc/thread-self/net/unix") // the process may have begun in another network
	return listedBound(string(text)), true
}

// listedBound reads the names in the text of /proc/net/unix: of each line Num, RefCount, Protocol, Flags,
// Type, St and Inode, set in columns by spaces, and after one space the path, which may have spaces.
func listedBound(text string) (list []boundSocket) {
	for line := range strings.Lines(text) {
		var f [7]string
		name := strings.TrimSuffix(line, "\n")
		for i := range f {
			f[i], name, _ = strings.Cut(strings.TrimLeft(name, " "), " ")
		}
		flags, _ := strconv.ParseUint(f[3], 16, 32)
		if kind := f[4]; name != "" && name[0] != '@' && (flags&listAccepting != 0 || kind == "0002") {
			list = append(list, boundSocket{name: name})
		}
	}
	return list
}

// askBound asks the kernel.
func askBound() ([]boundSocket, error) {
	s, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(s) }()
	wait := unix.NsecToTimeval(int64(diagTime))
	if err := unix.SetsockoptTimeval(s, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		return nil, err
	}
	order := binary.NativeEndian
	ask := make([]byte, unix.SizeofNlMsghdr+diagRequest)
	order.PutUint32(ask[0:], uint32(len(ask)))
	order.PutUint16(ask[4:], diagByFamily)
	order.PutUint16(ask[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	ask[16] = unix.AF_UNIX
	order.PutUint32(ask[20:], 1<<stateListens|1<<stateClosed)
	order.PutUint32(ask[28:], diagShowName|diagShowVFS)
	if err := unix.Sendto(s, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	var list []boundSocket
	for buf := make([]byte, 64<<10); ; {
		n, _, err := unix.Recvfrom(s, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for b := buf[:n]; len(b) >= unix.SizeofNlMsghdr; {
			size, kind := int(order.Uint32(b)), order.Uint16(b[4:])
			if size < unix.SizeofNlMsghdr || size > len(b) {
				return nil, unix.EBADMSG
			}
			switch kind {
			case unix.NLMSG_DONE:
				return list, nil
			case unix.NLMSG_ERROR:
				return nil, unix.EOPNOTSUPP
			}
			if one, ok := parseBound(b[unix.SizeofNlMsghdr:size]); ok {
				list = append(list, one)
			}
			b = b[min((size+3)&^3, len(b)):]
		}
	}
}

// parseBound reads one socket. It reports false for one without a file.
func parseBound(b []byte) (s boundSocket, ok bool) {
	if len(b) < diagMessage {
		return s, false
	}
	order := binary.NativeEndian
	for b = b[diagMessage:]; len(b) >= 4; {
		size := int(order.Uint16(b))
		if size < 4 || size > len(b) {
			return s, false
		}
		switch value := b[4:size]; {
		case order.Uint16(b[2:]) == diagAttrName:
			s.name, _, _ = strings.Cut(string(value), "\x00")
		case order.Uint16(b[2:]) == diagAttrVFS && len(value) >= 8:
			dev := order.Uint32(value[4:]) // as the kernel has it inside
			s.ino, s.device, ok = order.Uint32(value), fmt.Sprintf("%d:%d", dev>>20, dev&(1<<20-1)), true
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return s, ok
}
