package layerstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	shownName    = "shown.json"
	shownLock    = "shown.lock"
	shownVersion = 1
)

// Shown records which of a layer's changes a principal has seen.
type Shown struct {
	// Scopes are the paths at and below which all changes were shown, "." for everything.
	Scopes map[string]bool
	// Paths has a record for each changed path in a diff.
	Paths map[string]ShownPath
}

// ShownPath records how one path looked when a principal saw it.
type ShownPath struct {
	Sum []byte // of what would have landed
	// Whole: the sum has the content, too. It was shown, and not only named.
	Whole bool
}

// ShownError reports that the record of seen changes cannot be read.
type ShownError struct {
	ID  string
	Err error
}

// Error says why.
func (e *ShownError) Error() string {
	return fmt.Sprintf("cannot tell what was shown of layer %s: %v", e.ID, e.Err)
}

// Unwrap returns the cause.
func (e *ShownError) Unwrap() error { return e.Err }

// shownFile is the content of shown.json. Paths have any bytes.
type shownFile struct {
	Version    int              `json:"version"`
	Principals []shownPrincipal `json:"principals"`
}

type shownPrincipal struct {
	Principal string      `json:"principal"`
	Scopes    [][]byte    `json:"scopes"`
	Paths     []shownPath `json:"paths"`
}

type shownPath struct {
	Path  []byte `json:"path"`
	Sum   []byte `json:"sum"`
	Whole bool   `json:"whole,omitempty"`
}

// Shown returns which changes principals have seen, by their names. A record that cannot be read is a
// [ShownError].
func (h *Held) Shown() (map[string]*Shown, error) {
	all := map[string]*Shown{}
	text, err := readFile(filepath.Join(h.dir, shownName), maxKnown)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	var file shownFile
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err == nil && file.Version != shownVersion {
		err = fmt.Errorf("the record is of version %d, and this program knows version %d", file.Version, shownVersion)
	}
	if err != nil {
		return nil, &ShownError{h.ID, err}
	}
	for _, p := range file.Principals {
		one := &Shown{make(map[string]bool, len(p.Scopes)), make(map[string]ShownPath, len(p.Paths))}
		for _, at := range p.Scopes {
			one.Scopes[string(at)] = true
		}
		for _, s := range p.Paths {
			one.Paths[string(s.Path)] = ShownPath{s.Sum, s.Whole}
		}
		all[p.Principal] = one
	}
	return all, nil
}

// UpdateShown changes the record of seen changes. Unlike everything else it can be called while a
// sandbox has the layer: it has a lock of its own. With anew, a record that cannot be read counts
// as none.
func (h *Held) UpdateShown(anew bool, change func(all map[string]*Shown)) error {
	fail := func(err error) error { return fmt.Errorf("cannot record what was shown of layer %s: %w", h.ID, err) }
	lock, err := os.OpenFile(filepath.Join(h.dir, shownLock), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return fail(err)
	}
	defer lock.Close()
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return fail(err)
	}
	all, err := h.Shown()
	if err != nil && !anew {
		return err
	}
	if err != nil {
		all = map[string]*Shown{}
	}
	change(all)
	if err := h.saveShown(all); err != nil {
		return fail(err)
	}
	return nil
}

// saveShown replaces the record.
func (h *Held) saveShown(all map[string]*Shown) error {
	file := shownFile{Version: shownVersion, Principals: []shownPrincipal{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		one := shownPrincipal{Principal: name, Scopes: [][]byte{}, Paths: make([]shownPath, 0, len(all[name].Paths))}
		for _, at := range slices.Sorted(maps.Keys(all[name].Scopes)) {
			one.Scopes = append(one.Scopes, []byte(at))
		}
		for _, at := range slices.Sorted(maps.Keys(all[name].Paths)) {
			s := all[name].Paths[at]
			one.Paths = append(one.Paths, shownPath{[]byte(at), s.Sum, s.Whole})
		}
		if len(one.Scopes)+len(one.Paths) > 0 {
			file.Principals = append(file.Principals, one)
		}
	}
	path := filepath.Join(h.dir, shownName)
	if len(file.Principals) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	text, err := json.Marshal(file)
	switch {
	case err != nil:
		return err
	case len(text) > maxKnown:
		return fmt.Errorf("the record would have more than %d MiB", maxKnown>>20)
	}
	return replace(path, text)
}
