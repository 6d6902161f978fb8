//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
)

// impostor runs in the place of another program, by that one's name, and
// leaves a file in the directory drop above it. It reports whether it has.
func impostor() bool {
	path, err := os.Readlink("/proc/self/exe")
	if err != nil || strings.HasSuffix(filepath.Base(path), "attacker") {
		return false
	}
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		if os.WriteFile(filepath.Join(dir, "drop", "ran"), nil, 0o644) == nil {
			return true
		}
	}
	return false
}
