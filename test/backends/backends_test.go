//go:build linux

// Package backends takes every backend through the suite of backendtest, and
// prints the grid.
package backends

import (
	"context"
	"os"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/backendtest"
	"github.com/paddock-dev/paddock/backend/linux"
)

func backends() []backend.Backend {
	return []backend.Backend{linux.New()}
}

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, backends()...)) }

func TestLinux(t *testing.T) {
	c := backendtest.Config{Name: "linux", Backend: linux.New()}
	for _, f := range linux.New().Probe(context.Background()).Features {
		if f.Name == "user namespaces" && !f.OK {
			c.Missing = "user namespaces are forbidden here: " + f.Detail
		}
	}
	backendtest.Run(t, c)
}
