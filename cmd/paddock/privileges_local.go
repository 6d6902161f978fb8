//go:build !redis

package main

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/stores"
)

// siblingName is this same program with a client of Redis linked, which costs
// each start a third of a millisecond.
const siblingName = "paddock-redis"

// becomeRedis goes on as the sibling where privileges are kept on a server.
// Where there is none it goes on as it is, and what needs a privilege is
// refused.
func (a *app) becomeRedis() {
	if !stores.IsRemote(a.where()) {
		return
	}
	if self, err := os.Executable(); err == nil {
		_ = syscall.Exec(filepath.Join(filepath.Dir(self), siblingName), os.Args, os.Environ()) // openRemote tells
	}
}

func openRemote(string) (privilege.Store, error) {
	return nil, &privilege.Unavailable{
		Store: "Redis",
		Cause: errors.New(siblingName + " cannot be started"),
		Hint:  "keep " + siblingName + " beside paddock; make build makes both",
	}
}
