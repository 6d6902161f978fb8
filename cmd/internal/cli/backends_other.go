//go:build !linux

package cli

import "github.com/paddock-dev/paddock/backend"

// backends are those that a spec can name: none that works here.
func backends() []backend.Backend { return nil }
