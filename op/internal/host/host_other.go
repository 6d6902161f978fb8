//go:build !linux

package host

import "github.com/paddock-dev/paddock/op"

// Ops returns no operations: control groups and namespaces are Linux's.
func Ops() []op.Op { return nil }
