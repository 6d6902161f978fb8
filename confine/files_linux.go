package confine

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// SendFiles passes descriptors over a stream socket (SCM_RIGHTS, unix(7)), in batches, each
// with one byte [FilesMark].
func SendFiles(socket *os.File, fds []int) error {
	raw, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	for len(fds) > 0 {
		batch := fds[:min(len(fds), MaxFiles)]
		fds = fds[len(batch):]
		var serr error
		err := raw.Write(func(fd uintptr) bool {
			serr = unix.Sendmsg(int(fd), []byte{FilesMark}, unix.UnixRights(batch...), nil, 0)
			return serr != unix.EAGAIN
		})
		if err != nil {
			return err
		}
		if serr != nil {
			return os.NewSyscallError("sendmsg", serr)
		}
	}
	return nil
}

// ReceiveFiles receives what [SendFiles] sends, at most bound descriptors, and the byte after
// it, which begins the next message. After an error no descriptor is left.
func ReceiveFiles(socket *os.File, bound int) (fds []int, next byte, err error) {
	defer func() {
		if err != nil {
			for _, fd := range fds {
				_ = unix.Close(fd)
			}
			fds = nil
		}
	}()
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, 0, err
	}
	oob, b := make([]byte, unix.CmsgSpace(4*MaxFiles)), make([]byte, 1)
	for {
		var n, oobn int
		var rerr error
		err := raw.Read(func(fd uintptr) bool {
			n, oobn, _, _, rerr = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC)
			return rerr != unix.EAGAIN && rerr != unix.EINTR
		})
		switch {
		case err != nil:
			return fds, 0, err
		case rerr != nil:
			return fds, 0, os.NewSyscallError("recvmsg", rerr)
		case n == 0:
			return fds, 0, io.ErrUnexpectedEOF
		}
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return fds, 0, err
		}
		for i := range messages {
			passed, err := unix.ParseUnixRights(&messages[i])
			if err != nil {
				return fds, 0, err
			}
			fds = append(fds, passed...)
		}
		if len(fds) > bound {
			return fds, 0, errors.New("there are more descriptors than there should be")
		}
		if b[0] != FilesMark {
			return fds, b[0], nil
		}
	}
}
