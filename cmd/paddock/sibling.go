//go:build !mcp || !redis

package main

import (
	"os"
	"path/filepath"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// sibling is the path of a program beside this one, which is about to be executed.
func sibling(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return "", err
	}
	way, err := hostpath.NewSeen(hostpath.List(state)).TrustProgram(backend.OwnFile{Path: filepath.Join(filepath.Dir(self), name), What: name})
	if err != nil {
		return "", err
	}
	return way.Path, nil
}
