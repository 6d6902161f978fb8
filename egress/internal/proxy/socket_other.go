//go:build !linux

package proxy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
)

var errLinux = errors.New("rules by host need Linux")

func readNow(fd uintptr, buffer []byte) (int, error) { return 0, errLinux }

func canSplice(io.Writer, net.Conn) bool { return false }

func spliceAll(io.Writer, net.Conn) error { return errLinux }

func isGone(uintptr) bool { return true }

func checkSockets(*os.File, []*os.File, bool) error { return errLinux }

func listenTCP(*os.File, netip.AddrPort) (*net.TCPListener, error) { return nil, errLinux }

func listenUDP(*os.File, netip.AddrPort) (*net.UDPConn, error) { return nil, errLinux }

func mostDescriptors() (uint64, error) { return 0, errLinux }
