//go:build !linux

package cli

import "github.com/paddock-dev/paddock/backend"

// backends returns nothing: no backend works here.
func backends() []backend.Backend { return nil }
