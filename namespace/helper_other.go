//go:build !linux

package namespace

// Helper does nothing on systems without namespaces.
func Helper() {}
