package paddock

import (
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/backend/state"
)

// defaultBackend is the one that Options without a Backend use.
func defaultBackend() backend.Backend { return linux.New() }

// attach finds the running sandbox of this id below a directory of state.
func attach(dir, id string) (backend.Sandbox, error) {
	a, err := state.Attach(dir, id)
	if err != nil {
		return nil, err
	}
	return a, nil
}
