package cli

import (
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/codex"
	"github.com/paddock-dev/paddock/backend/docker"
	"github.com/paddock-dev/paddock/backend/host"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/backend/wrapper"
)

// backends returns those that a spec can name, the default one first.
func backends() []backend.Backend {
	return []backend.Backend{linux.New(), host.New(), docker.New(), codex.New(), wrapper.New()}
}
