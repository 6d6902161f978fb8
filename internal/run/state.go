package run

import "time"

// Running is a sandbox that runs, by its record.
type Running struct {
	ID      string
	Backend string
	Since   time.Time
	Ready   bool // it has started
}

// Port is a TCP port of the host on which a process of Paddock listens: for a port of a
// sandbox, or, if Sandbox is empty, as a server of its own.
type Port struct {
	Address string
	Sandbox string
	Guest   int
}

// Unreported is a text that outlives its owner. See package backend/state.
type Unreported interface {
	Name() string
	Text() ([]byte, error)
	Forget()
	Release()
}
