package paddock

import (
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/linux"
)

// defaultBackend is the one that Options without a Backend use.
func defaultBackend() backend.Backend { return linux.New() }
