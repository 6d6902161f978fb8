//go:build !mcp

package main

import (
	"os"
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
	path, err := sibling(mcpSibling)
	if err != nil {
		return err
	}
	return &paddock.Error{
		Message: "cannot start the server for models: " + path + ": " + syscall.Exec(path, os.Args, os.Environ()).Error(),
		Hint:    "keep " + mcpSibling + " beside paddock; make build makes both",
	}
}

// install and uninstall go on as the sibling.
func (*installFlags) install() error   { return becomeMCP() }
func (*installFlags) uninstall() error { return becomeMCP() }
