//go:build linux

package program

import "unsafe"

var processName = [...]byte{'p', 'a', 'd', 'd', 'o', 'c', 'k', '-', 'k', 'e', 'e', 'p', 'e', 'r', 0}

// name returns the address of the process's name. A program that was started through a
// descriptor has a number as its name.
func name() unsafe.Pointer { return unsafe.Pointer(&processName[0]) }
