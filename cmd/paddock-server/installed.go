package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/ownfile"
)

// restricted are the files in which an installation has turned a client's own tools off
// in words that could be the user's. It is kept in the directory of state.
type restricted map[string]bool

// The name of its file, the bytes that this may hold, and the wait for another
// installation to be done.
const (
	restrictedName = "installed.json"
	maxRestricted  = 1 << 20
	installTime    = time.Minute
)

// alone installs or uninstalls while no other process of this user's does, and keeps
// what that has made of the record, also where it failed.
func alone(do func(restricted) error) error {
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return err
	}
	record, err := ownfile.New(filepath.Join(state, restrictedName), maxRestricted, func(text []byte) (on restricted, err error) {
		if len(text) > 0 {
			err = json.Unmarshal(text, &on)
		}
		return on, err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTime)
	defer cancel()
	var failed error
	err = record.Update(ctx, func(old restricted) ([]byte, error) {
		now := restricted{}
		for path := range old {
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				now[path] = true
			}
		}
		if failed = do(now); maps.Equal(now, old) {
			return nil, nil
		}
		return json.Marshal(now)
	})
	if err == nil || failed != nil {
		return failed
	}
	return &paddock.Error{
		Message: fmt.Sprintf("cannot keep what was installed in %s: %v", record.Path(), err),
		Hint:    "mend that, or remove the file: then uninstall leaves it to you to turn a client's own tools on again",
	}
}
