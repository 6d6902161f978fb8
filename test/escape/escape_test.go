//go:build linux

package escape

import (
	"slices"
	"testing"

	"github.com/paddock-dev/paddock/confine"
)

func TestGrid(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		h.pair(t, "none")
		h.run(t, "attacks without a network", slices.Concat(fileAttacks(), workspaceAttacks(), setIDAttacks(), mountAttacks(), namespaceAttacks(),
			processAttacks(), networkAttacks(), kernelAttacks()))
	})
}

func TestGridHostNetwork(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		if abi := confine.LandlockABI(); abi < confine.LandlockScopesABI {
			t.Skipf("the kernel's Landlock ABI is %d, and the host's network is not given without its scopes", abi)
		}
		h := newHost(t, c)
		h.pair(t, "host")
		h.run(t, "attacks with the host's network", hostNetworkAttacks())
	})
}
