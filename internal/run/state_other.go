//go:build !linux

package run

import "github.com/paddock-dev/paddock/backend"

// DefaultBackend is nil where no wall can be built without being told how.
func DefaultBackend() backend.Backend { return nil }

// Attach finds nothing: no sandbox has its owner here.
func Attach(string, string) (backend.Sandbox, error) { return nil, backend.ErrGone }

// KeepUnreported keeps nothing: no sandbox has its owner here.
func KeepUnreported(string, string, []byte) (Unreported, error) { return nil, nil }

func CheckState(string) error { return nil }

func RefusedRecords(string) []string { return nil }

func TakeUnreported(string, bool) []Unreported { return nil }

func List(string) ([]Running, error) { return nil, nil }
