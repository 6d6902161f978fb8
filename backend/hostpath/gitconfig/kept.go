package gitconfig

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
)

// Kept has the additions of one sandbox's commands to their copy of a repository's
// configuration. They are stored for [Accept].
type Kept struct {
	Workspace string // of the sandbox
	File      string // the host's, free of symbolic links
	Dir       dirfd.Identity
	Settings  []Setting
}

// keptGit is the written form of a Kept. Paths are bytes, since JSON text can only have UTF-8.
type keptGit struct {
	Workspace, File []byte
	Dir             dirfd.Identity
	Settings        []Setting
}

// The directory below the state directory, with a file for each sandbox, and the bounds. If
// there are more files, the oldest are removed.
const (
	keptDir     = "git"
	maxGitKept  = 64
	maxKeptSize = 4 << 20 // bytes of one
)

// Keep stores the additions of a sandbox's commands, below a state directory.
func Keep(state, id string, list []Kept) error {
	for i := range list {
		var st dirfd.Stat
		if err := st.Of(unix.AT_FDCWD, filepath.Dir(list[i].File)); err != nil {
			return err
		}
		list[i].Dir = st.Identity
	}
	dir := filepath.Join(state, keptDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeKept(dir, id, list); err != nil {
		return err
	}
	kept, err := listKept(dir)
	for i := maxGitKept; err == nil && i < len(kept); i++ {
		err = os.Remove(filepath.Join(dir, kept[i].sandbox))
	}
	return err
}

func writeKept(dir, id string, list []Kept) error {
	var all []keptGit
	for _, k := range list {
		all = append(all, keptGit{[]byte(k.Workspace), []byte(k.File), k.Dir, k.Settings})
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if len(text) > maxKeptSize {
		return hostpath.ErrTooLarge
	}
	name := filepath.Join(dir, id)
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// gitRecord has the stored additions of one sandbox.
type gitRecord struct {
	sandbox string
	age     time.Time
	list    []Kept
}

// listKept returns the records of all sandboxes, the newest first, without their lists.
func listKept(dir string) ([]gitRecord, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []gitRecord
	for _, e := range entries {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == "" {
			all = append(all, gitRecord{sandbox: e.Name(), age: info.ModTime()})
		}
	}
	slices.SortFunc(all, func(a, b gitRecord) int { return cmp.Or(b.age.Compare(a.age), cmp.Compare(a.sandbox, b.sandbox)) })
	return all, err
}

// read reads the list of a record.
func (r *gitRecord) read(dir string) error {
	text, err := hostpath.ReadOwn(dir, r.sandbox)
	if err == nil && len(text) > maxKeptSize {
		err = hostpath.ErrTooLarge
	}
	var all []keptGit
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	for _, k := range all {
		r.list = append(r.list, Kept{string(k.Workspace), string(k.File), k.Dir, k.Settings})
	}
	return err
}

// forget removes the stored additions except rest. The file's time does not change.
func (r *gitRecord) forget(dir string, rest []Kept) error {
	name := filepath.Join(dir, r.sandbox)
	if len(rest) == 0 {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := writeKept(dir, r.sandbox, rest); err != nil {
		return err
	}
	return os.Chtimes(name, r.age, r.age)
}
