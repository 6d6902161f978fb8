//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/ownfile"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/obeyed"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// hold stops a server from working in a project in which commands have made files that
// coding agents obey when they start: if tools are approved, the user does not see this
// happen. Such files stay on record until they are removed, or until "paddock mcp install"
// is run again.
type hold struct {
	project string
	record  *ownfile.File[plantedIn]

	mu     sync.Mutex
	before []string // the files at the time of the first call, nil before that
	found  []string // what commands have made since
}

// plantedIn holds the paths that commands have made, by project.
type plantedIn map[string][]string

const (
	plantedName = "planted.json"   // the file of the record, in the directory of state
	maxPlanted  = 1 << 20          // bytes of the record
	maxPaths    = 4 << 10          // bytes of a project's paths in it
	recordTime  = 10 * time.Second // the longest wait for other writers
)

// all is on record in place of paths that are too many, or that JSON cannot hold. The user
// then has to look at the whole project.
const all = "."

// openHold opens the record for a project.
func openHold(project string) (*hold, error) {
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return nil, err
	}
	record, err := ownfile.New(filepath.Join(state, plantedName), maxPlanted, func(text []byte) (in plantedIn, err error) {
		if len(text) == 0 {
			return nil, nil
		}
		err = json.Unmarshal(text, &in)
		return in, err
	})
	return &hold{project: project, record: record}, err
}

// existing returns the paths of a project that still exist.
func existing(project string, paths []string) []string {
	return slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		_, err := os.Lstat(filepath.Join(project, path))
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	})
}

// checkRecord returns an error if commands of an earlier server have made such files.
func (h *hold) checkRecord() error {
	on, err := h.record.Read()
	if err != nil {
		return h.recordError(err)
	}
	return h.refusal(existing(h.project, on[h.project]))
}

// check returns an error if the user has to look at such files first.
func (h *hold) check() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for _, o := range policy.Agents() {
		names = append(names, o.Path)
	}
	now := existing(h.project, names)
	if h.before == nil {
		h.before = append([]string{}, now...)
	}
	var err error
	if made := slices.DeleteFunc(now, func(name string) bool { return slices.Contains(h.before, name) || slices.Contains(h.found, name) }); len(made) > 0 {
		h.found = append(h.found, made...)
		err = h.add(h.project, made)
	}
	return errors.Join(h.refusal(h.found), err)
}

// planted records the files that a sandbox has left.
func (h *hold) planted(p op.Planted) {
	made := slices.DeleteFunc(slices.Clone(p.Paths), func(path string) bool {
		return filepath.IsAbs(path) || !slices.ContainsFunc(policy.Agents(), func(o policy.Obeyed) bool {
			// Only the client can have changed what is in such a directory at the top:
			// commands cannot write there.
			return path == o.Path || strings.Index("/"+path+"/", "/"+o.Path+"/") > 0
		})
	})
	if len(p.Paths) >= obeyed.MaxChanges { // there may be more
		made = []string{all}
	}
	if len(made) == 0 {
		return
	}
	_ = h.add(p.Workspace, made) // it is also in the log
	if p.Workspace == h.project {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.found = append(h.found, made...)
		slices.Sort(h.found)
		h.found = slices.Compact(h.found)
	}
}

// add puts paths on record, and drops those that are gone.
func (h *hold) add(project string, made []string) error {
	err := h.update(func(on plantedIn) {
		on[project] = append(on[project], made...)
		for project, paths := range on {
			slices.Sort(paths)
			paths = existing(project, slices.Compact(paths))
			if text := strings.Join(paths, "\n"); len(text) > maxPaths || !utf8.ValidString(text) || slices.Contains(paths, all) {
				paths = []string{all}
			}
			if on[project] = paths; len(paths) == 0 {
				delete(on, project)
			}
		}
	})
	if err != nil {
		return h.recordError(err)
	}
	return nil
}

// clear removes all files from the record, since the user has seen them, and returns the
// ones that still exist.
func (h *hold) clear() (paths []string, err error) {
	err = h.update(func(on plantedIn) {
		paths = existing(h.project, on[h.project])
		delete(on, h.project)
	})
	if err != nil {
		return nil, h.recordError(err)
	}
	return paths, nil
}

// update changes the record.
func (h *hold) update(change func(plantedIn)) error {
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	return h.record.Update(ctx, func(old plantedIn) ([]byte, error) {
		on := plantedIn{}
		for project, paths := range old {
			on[project] = slices.Clone(paths)
		}
		if change(on); len(on) == len(old) && len(on) == 0 {
			return nil, nil
		}
		return json.Marshal(on)
	})
}

// recordError returns the error about a record that cannot be read or written.
func (h *hold) recordError(err error) error {
	return &paddock.Error{
		Message: "cannot keep what commands have made for clients to obey, in " + h.record.Path() + ": " + err.Error(),
		Hint:    "look at the file, and remove it",
	}
}

// refusal returns the error about paths, nil if there are none.
func (h *hold) refusal(paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	e := &paddock.Error{
		Message: "cannot work in " + text.Escape(h.project) + " until your user has looked at " + text.Escape(op.Planted{Paths: paths}.Names()) + ": commands made it, and coding agents obey it, unasked, when they start there",
		Hint:    "remove it, or keep it with paddock mcp install --client NAME; then start the client again",
	}
	if slices.Contains(paths, all) {
		e.Message = "cannot work in " + text.Escape(h.project) + " until your user has looked at all of it: commands made files that coding agents obey, unasked, when they start there, more than can be named"
		e.Hint = "remove them, and run paddock mcp install --client NAME; then start the client again"
	}
	return e
}
