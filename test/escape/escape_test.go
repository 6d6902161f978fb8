//go:build linux

package escape

import (
	"slices"
	"testing"
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
		h := newHost(t, c)
		h.pair(t, "host")
		h.run(t, "attacks with the host's network", hostNetworkAttacks())
	})
}
