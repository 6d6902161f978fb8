//go:build !linux

package run

import "github.com/paddock-dev/paddock/backend"

// DefaultBackend returns nil: this platform has no default backend.
func DefaultBackend() backend.Backend { return nil }

// Named returns the name: there are no names here.
func Named(_, name string) (id string, lasting bool) { return name, false }

// Names returns nothing, because sandboxes have no state here.
func Names(string) []string { return nil }

// Paused reports that nothing is stopped.
func Paused(string, string) bool { return false }

// Attach finds nothing, because sandboxes have no state here.
func Attach(string, string) (backend.Sandbox, error) { return nil, backend.ErrGone }

// KeepUnreported keeps nothing, because sandboxes have no state here.
func KeepUnreported(string, string, []byte) (Unreported, error) { return nil, nil }

// CheckState accepts every directory.
func CheckState(string) error { return nil }

// RefusedRecords returns nothing.
func RefusedRecords(string) []string { return nil }

// TakeUnreported returns nothing.
func TakeUnreported(string, bool) []Unreported { return nil }

// List returns nothing.
func List(string, bool) ([]Running, error) { return nil, nil }

// AddPort records nothing.
func AddPort(string, Port) (forget func(), err error) { return func() {}, nil }

// Ports returns nothing.
func Ports(string) ([]Port, error) { return nil, nil }

func diskFull(string) bool { return false }
