package gitconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Choice says what [Accept] takes over.
type Choice struct {
	// Dir, free of symbolic links, chooses the additions of sandboxes whose workspace is
	// Dir or contains it, and of all other sandboxes the additions to the file of Dir's
	// own repository. "": all additions.
	Dir string
	// Sandbox chooses one sandbox by its id. "": all.
	Sandbox string
	// Drop only deletes the chosen additions.
	Drop bool
	// Agree is asked before the first write, with all that would be added. nil: nothing
	// is written.
	Agree func(offered []Accepted) (bool, error)
}

// Accepted is what one configuration file can take over, or has taken over.
type Accepted struct {
	File      string
	Sandboxes []string // whose commands added it, the newest first
	Settings  []Setting
	Left      []Left
	// Err says why nothing was added; the additions then stay stored.
	Err error
}

// Left is a setting that a file does not take over.
type Left struct {
	Setting
	Why string
}

// Acceptance is the result of [Accept].
type Acceptance struct {
	Files []Accepted
	// Agreed says that the files have the settings now. Otherwise they can take them over.
	Agreed bool
	// Forgotten names the sandboxes whose additions could not be read, with the reasons.
	Forgotten []string
}

// LockedError is the error of a configuration file that git, or another program that made its
// lock, has locked.
type LockedError struct{ Lock string }

// Error returns the name of the lock.
func (e *LockedError) Error() string { return e.Lock + " exists, which is how git locks the file" }

// TooManyError is the error of more settings than a person can check in one list.
type TooManyError struct {
	Sandboxes []string // whose commands added it, the newest first
}

// Error returns how many settings can be checked.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("sandboxes have added more than %d settings", MaxAdded)
}

// gitFile is what sandboxes have added to one file.
type gitFile struct {
	file  string
	of    []string // sandboxes, the newest first
	kept  []Kept   // of each
	shown Accepted
}

// Accept adds what commands of sandboxes have added to their copies to the host's
// configuration. If several sandboxes set a key, the newest one counts. It writes only
// settings that Agree was asked about before. It checks stored additions again, as they may
// be older than the file. It deletes them once the files have them, or cannot have any of
// them. Stored additions that cannot be read are deleted at once.
//
// A file is locked as git locks it, and then only extended, by one write: replacing it
// would remove the protection that running sandboxes have put on it.
func Accept(state string, what Choice) (out Acceptance, err error) {
	dir := filepath.Join(state, keptDir)
	records, err := listKept(dir)
	if err != nil {
		return out, err
	}
	records = slices.DeleteFunc(records, func(r gitRecord) bool { return what.Sandbox != "" && r.sandbox != what.Sandbox })
	for i := range records {
		r := &records[i]
		if rerr := r.read(dir); rerr != nil {
			out.Forgotten = append(out.Forgotten, r.sandbox+": "+text.Escape(hostpath.Reason(rerr)))
			err = errors.Join(err, r.forget(dir, nil))
		}
	}
	if err != nil {
		return out, err
	}
	files, offered := what.files(records), 0
	for _, f := range files {
		one := f.look(false)
		if offered += len(one.Settings); !what.Drop && (offered > MaxAdded || errors.Is(one.Err, errTooManyAdded)) {
			return Acceptance{Forgotten: out.Forgotten}, tooMany(files)
		}
		f.shown = one
		out.Files = append(out.Files, one)
	}
	if offered > 0 && !what.Drop {
		if what.Agree == nil {
			return out, nil
		}
		if out.Agreed, err = what.Agree(out.Files); err != nil || !out.Agreed {
			return out, err
		}
	}
	for i, f := range files {
		if out.Agreed && len(f.shown.Settings) > 0 {
			out.Files[i] = f.look(true)
		}
	}
	for _, r := range records {
		rest := slices.DeleteFunc(slices.Clone(r.list), func(k Kept) bool {
			at := slices.IndexFunc(out.Files, func(f Accepted) bool { return f.File == k.File })
			return what.chooses(k) && (what.Drop || out.Files[at].Err == nil)
		})
		if len(rest) < len(r.list) {
			err = errors.Join(err, r.forget(dir, rest))
		}
	}
	return out, err
}

// chooses reports whether stored additions are chosen.
func (a Choice) chooses(k Kept) bool {
	return a.Dir == "" || hostpath.Under(a.Dir, k.Workspace) || filepath.Dir(filepath.Dir(k.File)) == a.Dir
}

// files returns the files with something that is chosen.
func (a Choice) files(records []gitRecord) (files []*gitFile) {
	for _, r := range records {
		for _, k := range r.list {
			if !a.chooses(k) {
				continue
			}
			at := slices.IndexFunc(files, func(f *gitFile) bool { return f.file == k.File })
			if at < 0 {
				at, files = len(files), append(files, &gitFile{file: k.File})
			}
			files[at].of, files[at].kept = append(files[at].of, r.sandbox), append(files[at].kept, k)
		}
	}
	return files
}

// tooMany returns the error of too many settings in these files.
func tooMany(files []*gitFile) error {
	e := &TooManyError{}
	for _, f := range files {
		for _, id := range f.of {
			if !slices.Contains(e.Sandboxes, id) {
				e.Sandboxes = append(e.Sandboxes, id)
			}
		}
	}
	return e
}

// lasting are the permanent errors of a file, which make the additions for it useless.
var lasting = []error{fs.ErrNotExist, unix.ELOOP, unix.ENOTDIR, hostpath.ErrNotRegular, hostpath.ErrTooLarge, errNotPlainGit, errIncludes}

// look returns the settings that a file can take over. With write, it also adds them to the
// file, but only the ones that were shown before.
func (f *gitFile) look(write bool) Accepted {
	done := Accepted{File: f.file, Sandboxes: f.of, Left: slices.Clone(f.shown.Left)}
	err := f.change(write, &done)
	if err == nil {
		return done
	}
	why := hostpath.Reason(err)
	if errors.Is(err, unix.ELOOP) {
		why = "it, or a directory above it, is a symbolic link"
	}
	if !slices.ContainsFunc(lasting, func(target error) bool { return errors.Is(err, target) }) {
		done.Err = fmt.Errorf("cannot change %s: %w", f.file, err)
	}
	done.Settings, done.Left = nil, nil
	for _, k := range f.kept {
		done.leave(why, k.Settings...)
	}
	return done
}

// leave records that the file does not take over these settings.
func (d *Accepted) leave(why string, settings ...Setting) {
	for _, s := range settings {
		if one := (Left{s, why}); !slices.Contains(d.Left, one) {
			d.Left = append(d.Left, one)
		}
	}
}

// change does the work of look.
func (f *gitFile) change(write bool, done *Accepted) (err error) {
	root, err := dirfd.Open(unix.AT_FDCWD, "/", dirfd.DirFlags)
	if err != nil {
		return err
	}
	at, err := dirfd.OpenByName(root, filepath.Dir(f.file)[1:], dirfd.DirFlags)
	_ = unix.Close(root)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	name, flags := filepath.Base(f.file), unix.O_RDONLY
	if write {
		flags = unix.O_RDWR | unix.O_APPEND
		lock, err := unix.Openat(at, name+".lock", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if errors.Is(err, unix.EEXIST) {
			return &LockedError{f.file + ".lock"}
		}
		if err != nil {
			return err
		}
		defer func() {
			_ = unix.Close(lock)
			_ = unix.Unlinkat(at, name+".lock", 0)
		}()
	}
	var st dirfd.Stat
	if err := st.Of(at, ""); err != nil {
		return err
	}
	fresh := f.newest(st.Identity, done)
	fd, err := dirfd.Open(at, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), f.file)
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return cmp.Or(err, hostpath.ErrNotRegular)
	}
	text, err := io.ReadAll(io.LimitReader(file, MaxSize+1))
	if err != nil || len(text) > MaxSize {
		return cmp.Or(err, hostpath.ErrTooLarge)
	}
	if write {
		fresh = slices.DeleteFunc(fresh, func(s Setting) bool { return !slices.Contains(f.shown.Settings, s) })
	}
	added, err := missing(text, fresh, done)
	if err != nil || !write || len(done.Settings) == 0 {
		return err
	}
	if _, err = file.Write(added); err == nil {
		err = file.Sync()
	}
	if err != nil {
		err = errors.Join(err, file.Truncate(int64(len(text))))
	}
	return err
}

// newest returns the settings that the newest sandbox has given each key, among those whose
// repository was in this directory.
func (f *gitFile) newest(dir dirfd.Identity, done *Accepted) (fresh []Setting) {
	by := map[string]int{}
	for i, k := range f.kept {
		if !dir.Same(k.Dir) {
			done.leave("another directory is in the place of the one that the commands had", k.Settings...)
			continue
		}
		for _, s := range k.Settings {
			if _, ok := by[s.Key]; !ok {
				by[s.Key] = i
			}
			switch {
			case by[s.Key] == i:
				fresh = append(fresh, s)
			case !slices.Contains(fresh, s):
				done.leave("a later sandbox gave another value", s)
			}
		}
	}
	return fresh
}

// missing returns the text to append to a text of configuration.
func missing(text []byte, settings []Setting, done *Accepted) (added []byte, err error) {
	old, err := Parse(text)
	if err != nil {
		return nil, errNotPlainGit
	}
	was := byKey(old)
	var fresh []Setting
	for _, s := range settings {
		switch {
		case !policy.AcceptableGit(s.Key, s.Value):
			done.leave("it is never taken over", s)
		case was[s.Key] == nil:
			fresh = append(fresh, s)
		case !slices.ContainsFunc(was[s.Key], func(o Entry) bool { return o.Value == s.Value }):
			done.leave("the file has another value", s)
		}
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		added = []byte("\n")
	}
	// Check the result as the commands' copy was checked.
	found, err := Compare(text, slices.Concat(text, added, []byte(gitText(fresh))))
	if err != nil {
		return nil, err
	}
	for _, s := range fresh {
		if !slices.Contains(found.Settings, s) {
			done.leave("its remote has no URL in the file", s)
		}
	}
	done.Settings = found.Settings
	return append(added, gitText(found.Settings)...), nil
}
