package run

import "time"

// Running is a sandbox that runs, by its record.
type Running struct {
	ID      string
	Backend string
	Since   time.Time
	Ready   bool // it has started
}

// Port is where a process of Paddock listens on the host: at an address and TCP port for a port of a
// sandbox, or, if Sandbox is empty, as a server of its own, there or at the absolute path of a Unix
// socket. Open says that the server asks for no token.
type Port struct {
	Address string
	Sandbox string
	Guest   int
	Open    bool
}

// Unreported is a text that outlives its owner. See package backend/state.
type Unreported interface {
	Name() string
	Text() ([]byte, error)
	Forget()
	Release()
}
