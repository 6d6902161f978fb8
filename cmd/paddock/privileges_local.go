//go:build !redis

package main

import (
	"fmt"
	"os"
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
	path, err := sibling(siblingName)
	if err == nil {
		err = syscall.Exec(path, os.Args, os.Environ())
	}
	errSibling = err // openRemote tells
}

// errSibling is why the sibling could not be started.
var errSibling error

func openRemote(string) (privilege.Store, error) {
	return nil, &privilege.Unavailable{
		Store: "Redis",
		Cause: fmt.Errorf("%s cannot be started: %v", siblingName, errSibling),
		Hint:  "keep " + siblingName + " beside paddock; make build makes both",
	}
}
