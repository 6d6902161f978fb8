//go:build !linux

package paddock

import "github.com/paddock-dev/paddock/backend"

// defaultBackend is nil where no wall can be built without being told how.
func defaultBackend() backend.Backend { return nil }

// attach finds nothing: no sandbox has its owner here.
func attach(string, string) (backend.Sandbox, error) { return nil, backend.ErrGone }

// keepUnreported keeps nothing: no sandbox has its owner here.
func keepUnreported(string, string, []byte) (unreported, error) { return nil, nil }

func checkState(string) error { return nil }

func refusedRecords(string) []string { return nil }

func takeUnreported(string, bool) []unreported { return nil }

func running(string) ([]Running, error) { return nil, nil }
