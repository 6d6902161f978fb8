//go:build linux

package state

import (
	"os"
	"path/filepath"
	"slices"
)

// Running is a sandbox whose agent, or the keeper of the pipe to it, lives.
type Running struct {
	ID string
	Record
}

// List returns the sandboxes below root that run or are being started, the oldest
// first. Their isolation is nil until they have started.
func List(root string) ([]Running, error) {
	entries, err := os.ReadDir(filepath.Join(root, "sandboxes"))
	if os.IsNotExist(err) {
		return nil, nil
	}
	var list []Running
	for _, e := range entries {
		// One without a record has ended, or has not begun.
		r, rerr := Read(filepath.Join(root, "sandboxes", e.Name()))
		if isID(e.Name()) && rerr == nil && Alive(r.PID, r.Start) {
			list = append(list, Running{e.Name(), *r})
		}
	}
	slices.SortStableFunc(list, func(a, b Running) int { return a.Created.Compare(b.Created) })
	return list, err
}
