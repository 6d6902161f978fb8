//go:build linux

package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

var _ = register(map[string]attack{
	"ask":   only(func(args []string) error { return ask(args[0], args[1]) }),
	"serve": only(func(args []string) error { return serve(args[0], args[1], args[2]) }),
})

// ask sends a byte to a Unix socket, and waits for the answer of one with connections.
func ask(network, at string) error {
	if filepath.IsAbs(at) { // an address has room for 107 bytes
		if err := os.Chdir(filepath.Dir(at)); err == nil {
			at = filepath.Base(at)
		}
	}
	conn, err := net.Dial(network, at)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = conn.Write([]byte("x")); err == nil && network != "unixgram" {
		_, err = conn.Read(make([]byte, 1))
	}
	return err
}

// serve is a server of the host's user, or of a command: it makes the file reached for the first
// who asks, and answers everybody, until the directory of that file is gone. Like servers do, it
// first removes what an earlier one has left.
func serve(network, at, reached string) error {
	told := func() error { return os.WriteFile(reached, nil, 0o666) }
	if err := os.Remove(at); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Chdir(filepath.Dir(at))
	address := &net.UnixAddr{Name: filepath.Base(at), Net: network}
	if at[0] == '@' {
		address.Name = at
	}
	gone := func(err error) bool {
		_, missing := os.Stat(filepath.Dir(reached))
		return missing != nil || !errors.Is(err, os.ErrDeadlineExceeded)
	}
	const moment = 100 * time.Millisecond
	buf := make([]byte, 1)
	if network == "unixgram" {
		c, err := net.ListenUnixgram(network, address)
		if err != nil {
			return err
		}
		for {
			if err = c.SetReadDeadline(time.Now().Add(moment)); err == nil {
				_, err = c.Read(buf)
			}
			if err == nil {
				err = told()
			}
			if err != nil && gone(err) {
				return err
			}
		}
	}
	l, err := net.ListenUnix(network, address)
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	for {
		err := l.SetDeadline(time.Now().Add(moment))
		var c net.Conn
		if err == nil {
			c, err = l.Accept()
		}
		if err != nil {
			if gone(err) {
				return err
			}
			continue
		}
		if _, err := c.Read(buf); err == nil {
			if err = told(); err == nil {
				_, _ = c.Write(buf)
			}
		}
		_ = c.Close()
	}
}
