//go:build !linux

package op

// hostOps are none where there is no Linux.
func hostOps() []Op { return nil }
