package hostpath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/dirfd"
)

// writtenName is the file of the state directory that lists the directories that
// commands of sandboxes could ever change:
//
//	paddock-written 1
//	DEV INODE BORN "/home/ann/app" "bin/paddock-agent"
//
// Each line has the identity of a directory, its last known path, and the paths in it of
// Paddock's own files that no sandbox could change, because each start so far covered
// them. A file that was itself a writable mount has a line, too. A process that
// replaces the file holds a lock on writtenName + ".lock".
const writtenName = "written"

const (
	writtenHead = "paddock-written 1\n"
	maxWritten  = 32 << 20 // bytes of the list
	maxListed   = 1 << 16
	// roomy is up to how many entries the list keeps those whose directory is gone:
	// it may have been moved, with the links that commands made in it.
	roomy = 512
)

// entry is one directory that commands could change.
type entry struct {
	dirfd.Identity
	path  string
	kept  []string // own files in it, relative to it, that were always covered
	field string   // of the spec that named it, for the file of writers
}

// Written is the list of directories that commands of sandboxes could ever change. With a
// nil list, nothing is known.
type Written struct {
	state   string // the directory of the list
	name    string // of its file there
	read    stamp  // of that file, before it was read
	entries []entry
	more    *Written // the next list that counts, the usual one or root's "lent", or nil
}

// ReadWritten reads the list in a state directory. If there is none the error is
// fs.ErrNotExist. A list that others could have written is an error.
func ReadWritten(state string) (*Written, error) {
	return readList(state, writtenName, ownedByCaller)
}

// readList reads the list of this name. owner must accept its owner.
func readList(state, name string, owner func(uid uint32) bool) (*Written, error) {
	read := stampOf(state, name)
	text, err := readOwned(state, name, owner)
	if err != nil {
		return nil, err
	}
	w := &Written{state: state, name: name, read: read, entries: make([]entry, 0, min(bytes.Count(text, []byte("\n")), maxListed))}
	rest, ok := strings.CutPrefix(string(text), writtenHead)
	if !ok {
		return nil, fmt.Errorf("cannot read %s: it is not a list of directories", filepath.Join(state, name))
	}
	for line := range strings.Lines(rest) {
		e, ok := parseEntry(line)
		if !ok || len(w.entries) == maxListed {
			return nil, fmt.Errorf("cannot read %s: line %d is damaged", filepath.Join(state, name), len(w.entries)+2)
		}
		w.entries = append(w.entries, e)
	}
	return w, nil
}

// ownedByCaller reports whether a user is the caller.
func ownedByCaller(uid uint32) bool { return int(uid) == os.Geteuid() }

// ReadOwn reads a file of this user's state directory. It refuses one that anybody other
// than the user and root could have written.
func ReadOwn(state, name string) ([]byte, error) { return readOwned(state, name, ownedByCaller) }

// readOwned does what [ReadOwn] does, for an owner that owner accepts.
func readOwned(state, name string, owner func(uid uint32) bool) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(state, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, err := os.Lstat(state)
	if err != nil {
		return nil, err
	}
	file, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for _, info := range []fs.FileInfo{dir, file} {
		st := info.Sys().(*syscall.Stat_t)
		if !owner(st.Uid) || info.Mode().Perm()&0o022 != 0 {
			return nil, fmt.Errorf("cannot trust %s: others could have written it", f.Name())
		}
	}
	if !file.Mode().IsRegular() || file.Size() > maxWritten {
		return nil, fmt.Errorf("cannot read %s: it is not a list of directories", f.Name())
	}
	return io.ReadAll(io.LimitReader(f, maxWritten))
}

// find returns the entry of a directory in this list, without the others, or nil. Device
// numbers may change when the host boots, so they need not match if the path does.
func (w *Written) find(d Dir) *entry {
	for i := range w.entries {
		e := &w.entries[i]
		if e.Ino == d.Ino && (e.Same(d.Identity) || e.path == d.Path && (e.Born == d.Born || e.Born == 0 || d.Born == 0)) {
			return e
		}
	}
	return nil
}

// each returns the entries of a directory in all lists.
func (w *Written) each(d Dir) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for ; w != nil; w = w.more {
			if e := w.find(d); e != nil && !yield(e) {
				return
			}
		}
	}
}

// has reports whether commands could ever change a directory, or a file that was itself a
// mount.
func (w *Written) has(d Dir) bool {
	for range w.each(d) {
		return true
	}
	return false
}

// above returns the last of these directories that is in the list.
func (w *Written) above(dirs []Dir) (Dir, bool) {
	for _, d := range slices.Backward(dirs) {
		if w.has(d) {
			return d, true
		}
	}
	return Dir{}, false
}

// below returns the path of an entry, of any list, that lies in a directory, or "".
func (w *Written) below(dir string) string {
	for ; w != nil; w = w.more {
		for i := range w.entries {
			if Under(w.entries[i].path, dir) {
				return w.entries[i].path
			}
		}
	}
	return ""
}

// The bounds of [Written.moved].
const (
	movedLevels = 3   // how far below the directory it looks
	movedReads  = 16  // directories that it reads
	movedNames  = 128 // directories that it looks at
)

// moved returns the path of a directory of any list that was moved to below a directory,
// or "". It looks only at what is near the top, where version managers keep whole
// installations, so that a start does not have to read all of them.
func (w *Written) moved(top string) string {
	type place struct {
		path  string
		level int
	}
	found := map[uint64]Dir{} // by inode
	next := []place{{top, 1}}
	for reads := 0; w != nil && len(next) > 0 && reads < movedReads && len(found) < movedNames; reads++ {
		at := next[0]
		next = next[1:]
		fd, err := dirfd.Open(unix.AT_FDCWD, at.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != nil {
			continue
		}
		_ = dirfd.EachName(fd, func(name []byte, kind byte) bool {
			if kind == unix.DT_UNKNOWN {
				kind = dirfd.TypeOf(fd, string(name))
			}
			var st dirfd.Stat
			if kind == unix.DT_DIR && st.Of(fd, string(name)) == nil {
				d := Dir{Path: filepath.Join(at.path, string(name)), Identity: st.Identity}
				if found[d.Ino] = d; at.level < movedLevels {
					next = append(next, place{d.Path, at.level + 1})
				}
			}
			return len(found) < movedNames
		})
		_ = unix.Close(fd)
	}
	for ; w != nil; w = w.more {
		for i := range w.entries {
			if d, ok := found[w.entries[i].Ino]; ok && w.entries[i].Same(d.Identity) {
				return d.Path
			}
		}
	}
	return ""
}

// Keeps reports whether a path in these directories was covered at every start: itself,
// or a directory above it. If not, it returns a directory of the list through which
// commands could reach it.
func (w *Written) Keeps(dirs []Dir, file string) (Dir, bool) {
	for _, d := range dirs {
		rel, _ := Within(file, d.Path)
		for e := range w.each(d) {
			if !slices.ContainsFunc(e.kept, func(k string) bool { _, ok := Within("/"+rel, "/"+k); return ok }) {
				return d, false
			}
		}
	}
	return Dir{}, true
}

// String returns the list as it is written.
func (w *Written) String() string {
	var b strings.Builder
	b.WriteString(writtenHead)
	for _, e := range w.entries {
		fmt.Fprintf(&b, "%d %d %d %s", e.Dev, e.Ino, e.Born, strconv.Quote(e.path))
		for _, k := range e.kept {
			b.WriteString(" " + strconv.Quote(k))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// parseEntry reads one line of the list.
func parseEntry(line string) (e entry, ok bool) {
	line, ok = strings.CutSuffix(line, "\n")
	f := strings.SplitN(line, " ", 4)
	if !ok || len(f) < 4 {
		return e, false
	}
	dev, err1 := strconv.ParseUint(f[0], 10, 64)
	ino, err2 := strconv.ParseUint(f[1], 10, 64)
	born, err3 := strconv.ParseInt(f[2], 10, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return e, false
	}
	e.Identity = dirfd.Identity{FileID: confine.FileID{Dev: dev, Ino: ino}, Born: born}
	for rest := f[3]; ; {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return e, false
		}
		text, _ := strconv.Unquote(quoted)
		if e.path == "" {
			e.path = text
		} else {
			e.kept = append(e.kept, text)
		}
		if rest = rest[len(quoted):]; rest == "" {
			return e, filepath.IsAbs(e.path)
		}
		if rest, ok = strings.CutPrefix(rest, " "); !ok {
			return e, false
		}
	}
}

// holds reports whether the list already has everything that a start must add in which
// commands can change these directories.
func (w *Written) holds(dirs []entry) bool {
	return !slices.ContainsFunc(dirs, func(d entry) bool {
		e := w.find(Dir{Path: d.path, Identity: d.Identity})
		return e == nil || e.path != d.path || e.Dev != d.Dev || slices.ContainsFunc(e.kept, func(k string) bool { return !slices.Contains(d.kept, k) })
	})
}

// gone reports whether nothing is at the path of an entry any more, or something else.
func (e entry) gone() bool {
	var st dirfd.Stat
	if err := st.Of(unix.AT_FDCWD, e.path); err != nil {
		return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
	}
	return !st.Same(e.Identity)
}

// prune removes the oldest entries whose directory is gone, if there are many entries.
func (w *Written) prune() error {
	kept, spare := w.entries[:0], len(w.entries)-roomy
	for _, e := range w.entries {
		if spare > 0 && e.gone() {
			spare--
			continue
		}
		kept = append(kept, e)
	}
	if w.entries = kept; len(kept) > maxListed {
		return fmt.Errorf("sandboxes could change %w: %d", errTooMany, len(kept))
	}
	return nil
}

// errTooMany is the error of a full list whose directories all still exist.
var errTooMany = errors.New("more directories than are listed")

// remember adds directories to the list of this name in a state directory, before
// commands can change them, and notes who writes there. It writes nothing to the list if that, as this
// start has read it, has them already: only [Forget] removes an entry whose directory exists, and
// waits until the file that remember returns is closed.
func remember(state, list string, mode fs.FileMode, w *Written, dirs []entry, by Writer) (starting *os.File, err error) {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	if starting, err = lockFile(state, startsName, unix.LOCK_SH); err != nil {
		return nil, err
	}
	if err = enter(state, list, mode, w, dirs); err != nil {
		_ = starting.Close()
		return nil, err
	}
	if list == writtenName && by.ID != "" {
		_ = note(state, dirs, by) // without it the writer is unknown
	}
	return starting, nil
}

// lockFile opens a file of the state directory and locks it, as flock(2) does. Closing it ends the lock.
func lockFile(state, name string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(state, name), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		_ = f.Close()
		return nil, &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return f, nil
}

// enter does what [remember] does to the list.
func enter(state, list string, mode fs.FileMode, w *Written, dirs []entry) error {
	for w != nil && (w.state != state || w.name != list) {
		w = w.more
	}
	if w == nil || w.read != stampOf(state, list) {
		w, _ = readList(state, list, ownedByCaller) // an error is returned below
	}
	if w != nil && w.holds(dirs) {
		return nil
	}
	lock, err := lockFile(state, writtenName+".lock", unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	w, err = readList(state, list, ownedByCaller)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w = &Written{}
	case err != nil:
		return err
	case w.holds(dirs): // another process did it meanwhile
		return nil
	}
	for _, d := range dirs {
		e := w.find(Dir{Path: d.path, Identity: d.Identity})
		if e == nil {
			w.entries = append(w.entries, d)
			continue
		}
		e.kept = slices.DeleteFunc(e.kept, func(k string) bool { return !slices.Contains(d.kept, k) })
		e.path, e.Dev = d.path, d.Dev
	}
	if err := w.prune(); err != nil {
		return err
	}
	return Replace(filepath.Join(state, list), mode, []byte(w.String()))
}
