package hostpath

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
)

// GitKept is what commands of one sandbox have added to their copy of a repository's
// configuration, kept for [AcceptGit].
type GitKept struct {
	Workspace string // of the sandbox
	File      string // the host's, free of symbolic links
	Dir       Identity
	Settings  []GitSetting
}

// Where it is kept below the directory of state, a file for each sandbox, and how
// much: of more the oldest go.
const (
	keptDir     = "git"
	maxGitKept  = 64
	maxKeptSize = 4 << 20 // bytes of one
)

// KeepGit keeps what the commands of a sandbox have added, below a directory of state.
func KeepGit(state, id string, list []GitKept) error {
	for i := range list {
		var st stat
		if err := st.of(unix.AT_FDCWD, filepath.Dir(list[i].File)); err != nil {
			return err
		}
		list[i].Dir = st.Identity
	}
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	dir := filepath.Join(state, keptDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(dir, id)
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	kept, err := keptGit(state)
	for i := 0; err == nil && i < len(kept)-maxGitKept; i++ {
		err = os.Remove(filepath.Join(dir, kept[i]))
	}
	return err
}

// keptGit lists the sandboxes of which something is kept, the oldest first.
func keptGit(state string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(state, keptDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	age := map[string]time.Time{}
	var names []string
	for _, e := range entries {
		if info, err := e.Info(); err == nil && filepath.Ext(e.Name()) == "" {
			age[e.Name()] = info.ModTime()
			names = append(names, e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(age[a].Compare(age[b]), cmp.Compare(a, b)) })
	return names, err
}

// GitAccepted is what one file of configuration has taken over.
type GitAccepted struct {
	File     string
	Settings []GitSetting
	// Left are those whose keys the file has meanwhile, with other values.
	Left []GitSetting
}

// AcceptGit has the host's configuration take over what commands of sandboxes over a
// directory, free of symbolic links, have added to their copies. What is kept is
// judged anew, as it may be older than the file, and forgotten where that has gone well.
//
// The file is locked as git locks it and then only grows, by one write: to put another
// in its place would take the protection of sandboxes that run away from its name.
func AcceptGit(state, dir string) ([]GitAccepted, error) {
	names, err := keptGit(state)
	if err != nil {
		return nil, err
	}
	var done []GitAccepted
	var used []string
	for _, name := range names {
		text, err := readOwn(filepath.Join(state, keptDir), name, ownedByCaller)
		var list []GitKept
		if err == nil && len(text) > maxKeptSize {
			err = ErrTooLarge
		}
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err != nil {
			return done, fmt.Errorf("cannot read %s: %w", filepath.Join(state, keptDir, name), err)
		}
		matched := false
		for _, k := range list {
			if !under(dir, k.Workspace) && filepath.Dir(filepath.Dir(k.File)) != dir {
				continue
			}
			matched = true
			one, err := k.accept()
			if err != nil {
				return done, fmt.Errorf("cannot change %s: %w", k.File, err)
			}
			done = append(done, one)
		}
		if matched {
			used = append(used, name)
		}
	}
	for _, name := range used {
		err = errors.Join(err, os.Remove(filepath.Join(state, keptDir, name)))
	}
	return done, err
}

// LockedError is a file of configuration that git, or whoever made its lock, has locked.
type LockedError struct{ Lock string }

// Error names the lock.
func (e *LockedError) Error() string { return e.Lock + " exists, which is how git locks the file" }

// accept adds what the file does not have yet.
func (k GitKept) accept() (done GitAccepted, err error) {
	done.File = k.File
	dir, err := open(unix.AT_FDCWD, "/", dirFlags)
	if err != nil {
		return done, err
	}
	at, err := openByName(dir, filepath.Dir(k.File)[1:], dirFlags)
	_ = unix.Close(dir)
	if err != nil {
		return done, err
	}
	defer func() { _ = unix.Close(at) }()
	var st stat
	if err := st.of(at, ""); err != nil {
		return done, err
	}
	if !st.same(k.Dir) {
		return done, errors.New("another directory is in its place than when the commands ran")
	}
	name := filepath.Base(k.File)
	lock, err := unix.Openat(at, name+".lock", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EEXIST) {
		return done, &LockedError{k.File + ".lock"}
	}
	if err != nil {
		return done, err
	}
	defer func() {
		_ = unix.Close(lock)
		_ = unix.Unlinkat(at, name+".lock", 0)
	}()
	fd, err := open(at, name, unix.O_RDWR|unix.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return done, err
	}
	f := os.NewFile(uintptr(fd), k.File)
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return done, cmp.Or(err, ErrNotRegular)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxGitConfig+1))
	if err != nil || len(text) > maxGitConfig {
		return done, cmp.Or(err, ErrTooLarge)
	}
	added, err := k.missing(text, &done)
	if err != nil || len(done.Settings) == 0 {
		return done, err
	}
	if _, err = f.Write(added); err == nil {
		err = f.Sync()
	}
	if err != nil {
		done.Settings = nil
		err = errors.Join(err, f.Truncate(int64(len(text))))
	}
	return done, err
}

// missing gives what is to stand behind a text of configuration.
func (k GitKept) missing(text []byte, done *GitAccepted) (added []byte, err error) {
	old, err := parsePlain(text)
	if err != nil {
		return nil, errNotPlainGit
	}
	was := byKey(old)
	var fresh []GitSetting
	for _, s := range k.Settings {
		switch {
		case was[s.Key] == nil && policy.AcceptableGit(s.Key, s.Value):
			fresh = append(fresh, s)
		case !slices.ContainsFunc(was[s.Key], func(o setting) bool { return o.value == s.Value }):
			done.Left = append(done.Left, s)
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		added = []byte("\n")
	}
	// What would come of it is judged as the commands' copy was.
	found, err := CompareGit(text, slices.Concat(text, added, []byte(gitText(fresh))))
	if err != nil {
		return nil, err
	}
	for _, s := range fresh {
		if !slices.Contains(found.Settings, s) {
			done.Left = append(done.Left, s)
		}
	}
	done.Settings = found.Settings
	return append(added, gitText(found.Settings)...), nil
}
