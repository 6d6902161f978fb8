package run

import "time"

// Running is a sandbox that runs, by its record.
type Running struct {
	ID      string
	Backend string
	Since   time.Time
	Ready   bool // it has started
}

// Unreported is a text that outlives its owner. See package backend/state.
type Unreported interface {
	Name() string
	Text() ([]byte, error)
	Forget()
	Release()
}
