//go:build !mcp

package main

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/paddock-dev/paddock"
)

// mcpSibling is this same program with the protocol for models linked, which
// makes it half as large again and each start slower.
const mcpSibling = "paddock-mcp"

// mcp goes on as the sibling. What is wrong with the flags is told here already.
func (a *app) mcp(f *mcpFlags, _ bool) error {
	if _, err := f.profileOf(); err != nil {
		return err
	}
	return becomeMCP()
}

func (a *app) mcpHTTP(f *mcpFlags, named bool) error { return a.mcp(f, named) }

// becomeMCP goes on as the sibling, and says why it could not.
func becomeMCP() error {
	cause := "this program's own path is not known"
	if self, err := os.Executable(); err == nil {
		sibling := filepath.Join(filepath.Dir(self), mcpSibling)
		cause = sibling + ": " + syscall.Exec(sibling, os.Args, os.Environ()).Error()
	}
	return &paddock.Error{
		Message: "cannot start the server for models: " + cause,
		Hint:    "keep " + mcpSibling + " beside paddock; make build makes both",
	}
}

// install goes on as the sibling.
func (*installFlags) install() error { return becomeMCP() }
