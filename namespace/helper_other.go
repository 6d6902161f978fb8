//go:build !linux

package namespace

// Helper does nothing where there are no namespaces.
func Helper() {}
