//go:build linux

package state

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// portsDir has a file for each TCP port or Unix socket at which a process of Paddock listens: its name is
// the address, as in "127.161.20.5:8080", or made from the socket's path.
const portsDir = "ports"

// Port is a TCP port of the host, or a Unix socket, at which a process of Paddock listens.
type Port struct {
	// Address is the address and port, or the absolute path of a server's Unix socket.
	Address string `json:"address"`
	// Sandbox is whose port it is, and Guest the port inside; empty and 0 for a server.
	Sandbox string `json:"sandbox,omitempty"`
	Guest   int    `json:"guest,omitempty"`
	// Open says that a server asks for no token.
	Open bool `json:"open,omitempty"`
	// PID and Start are the process that listens.
	PID   int    `json:"pid"`
	Start uint64 `json:"start_time"`
}

// AddPort records a port on which this process listens, until forget is called or the
// process has ended.
func AddPort(root string, p Port) (forget func(), err error) {
	dir := filepath.Join(root, portsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fail("create", dir, err, elsewhere)
	}
	checked, err := OpenDir(root, portsDir)
	if err != nil {
		return nil, err
	}
	_ = checked.Close()
	p.PID = os.Getpid()
	if p.Start, err = StartTime(p.PID); err != nil {
		return nil, fail("read", "/proc", err, "")
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	name := p.Address
	if filepath.IsAbs(name) {
		name = fmt.Sprintf("unix-%x", sha256.Sum256([]byte(name)))
	}
	path := filepath.Join(dir, name)
	if err := hostpath.Replace(path, 0o600, text); err != nil {
		return nil, fail("write", path, err, "")
	}
	return func() { _ = os.Remove(path) }, nil
}

// maxPortRecord bounds a record of a port, in bytes.
const maxPortRecord = 4 << 10

// Ports returns the ports on which processes of Paddock listen, and removes the records of
// those that have ended.
func Ports(root string) ([]Port, error) {
	dir, err := OpenDir(root, portsDir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var all []Port
	for _, name := range Names(dir) {
		if strings.HasSuffix(name, ".new") {
			continue // it is being written
		}
		text, err := hostpath.Read(context.Background(), root, filepath.Join(portsDir, name), maxPortRecord)
		var p Port
		if err == nil {
			err = json.Unmarshal(text, &p)
		}
		switch {
		case err != nil: // it has been removed meanwhile, or is damaged
		case !Alive(p.PID, p.Start):
			_ = dir.Remove(name)
		default:
			all = append(all, p)
		}
	}
	return all, nil
}
