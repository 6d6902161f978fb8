package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// writersName is the file of the state directory that says by whom, and when, the directories of the
// list could be changed. It is beside the list because older programs refuse a list of another form:
//
//	SECONDS ID DEV INODE BORN FIELD "/home/ann/app" "/home/ann/.local/state/paddock"
//
// Each line is one sandbox and one directory: when it started, the field of its spec that named the
// directory, and its state directory. Lines are appended, and the oldest between the first and the
// last few of a directory are dropped. What is damaged or missing means that the writer is unknown.
const (
	writersName = "written.by"
	maxWriters  = 512 << 10 // bytes, beyond which lines are dropped
	keptWriters = 3         // last lines of a directory that are kept, beside the first
)

// startsName is the file on which a start has a shared lock from the moment at which it reads the list
// until its sandbox is known to run.
const startsName = "written.starts"

// stamp says which file was read.
type stamp struct {
	ino     uint64
	size    int64
	changed unix.Timespec
}

// stampOf returns the stamp of a file in a state directory, zero if there is none.
func stampOf(state, name string) stamp {
	var st unix.Stat_t
	if unix.Lstat(filepath.Join(state, name), &st) != nil {
		return stamp{}
	}
	return stamp{st.Ino, st.Size, st.Ctim}
}

// Writer is a sandbox whose commands could change a directory, or a commit of its layer.
type Writer struct {
	ID    string
	Field string // of the spec, such as "workspace.source"; "commit": changes of its layer landed
	State string // its state directory
	At    time.Time
}

// note appends who writes to directories.
func note(state string, dirs []entry, by Writer) error {
	lock, err := lockFile(state, writtenName+".lock", unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	name := filepath.Join(state, writersName)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "write", Path: name, Err: ErrNotRegular}
	}
	var lines strings.Builder
	for _, d := range dirs {
		fmt.Fprintf(&lines, "%d %s %d %d %d %s %s %s\n", by.At.Unix(), by.ID, d.Dev, d.Ino, d.Born, d.field, strconv.Quote(d.path), strconv.Quote(by.State))
	}
	if _, err := f.WriteString(lines.String()); err != nil || info.Size() < maxWriters {
		return err
	}
	all, err := readWriters(state)
	if err != nil {
		return err
	}
	return writeWriters(state, fewer(all))
}

// written is a line of the file of writers.
type written struct {
	Writer
	entry
	line string
}

// readWriters reads the file of writers, without lines that are damaged.
func readWriters(state string) (all []written, err error) {
	text, err := ReadOwn(state, writersName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for line := range strings.Lines(string(text)) {
		if w, ok := parseWriter(line); ok {
			all = append(all, w)
		}
	}
	return all, err
}

// parseWriter reads one line.
func parseWriter(line string) (w written, ok bool) {
	text, ok := strings.CutSuffix(line, "\n")
	f := strings.SplitN(text, " ", 7)
	if !ok || len(f) < 7 {
		return w, false
	}
	at, err1 := strconv.ParseInt(f[0], 10, 64)
	dev, err2 := strconv.ParseUint(f[2], 10, 64)
	ino, err3 := strconv.ParseUint(f[3], 10, 64)
	born, err4 := strconv.ParseInt(f[4], 10, 64)
	path, err5 := strconv.QuotedPrefix(f[6])
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return w, false
	}
	state, err := strconv.Unquote(strings.TrimPrefix(f[6][len(path):], " "))
	if err != nil || !filepath.IsAbs(state) {
		return w, false
	}
	w = written{Writer: Writer{ID: f[1], Field: f[5], State: state, At: time.Unix(at, 0)}, line: line}
	w.Identity = dirfd.Identity{FileID: confine.FileID{Dev: dev, Ino: ino}, Born: born}
	w.path, err = strconv.Unquote(path)
	return w, err == nil
}

// fewer returns the first and the last lines of each directory, in their order, and of these at most
// half of the bytes that the file may have, the last ones.
func fewer(all []written) []written {
	type key struct {
		ino  uint64
		path string
	}
	count, seen := map[key]int{}, map[key]int{}
	for _, w := range all {
		count[key{w.Ino, w.path}]++
	}
	var few []written
	size := 0
	for _, w := range all {
		k := key{w.Ino, w.path}
		if seen[k]++; seen[k] == 1 || seen[k] > count[k]-keptWriters {
			few, size = append(few, w), size+len(w.line)
		}
	}
	for len(few) > 0 && size > maxWriters/2 {
		size -= len(few[0].line)
		few = few[1:]
	}
	return few
}

func writeWriters(state string, all []written) error {
	var b strings.Builder
	for _, w := range all {
		b.WriteString(w.line)
	}
	return Replace(filepath.Join(state, writersName), 0o600, []byte(b.String()))
}

// Listed is a directory, or a file that was mounted by itself, that commands of sandboxes could ever
// change.
type Listed struct {
	Path string // its last known one, absolute
	dirfd.Identity
	// Gone says that nothing is at the path any more, or something else: it may have been moved.
	Gone bool
	// Lent says that it is in root's list alone, which root can change.
	Lent bool
	// Writers are known, the oldest first: the first, and some of the last. Others are unknown.
	Writers []Writer
}

// Listing returns the lists that count for a state directory together, sorted by path. If there is no
// list, it is empty.
func Listing(state string) (all []Listed, err error) {
	w, err := readLists(state)
	if errors.Is(err, fs.ErrNotExist) {
		if w, err = readLent(); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	var by []written
	type key struct {
		path string
		ino  uint64
	}
	index := map[key]int{} // a list can be long
	for l := w; l != nil; l = l.more {
		if l.name == writtenName {
			more, _ := readWriters(l.state) // else they are unknown
			by = append(by, more...)
		}
		for i := range l.entries {
			e := &l.entries[i]
			at, there := index[key{e.path, e.Ino}]
			one := Listed{Path: e.path, Identity: e.Identity, Gone: e.gone(), Lent: l.name == LentName}
			if !there {
				index[key{e.path, e.Ino}] = len(all)
				all = append(all, one)
				continue
			}
			all[at].Lent = all[at].Lent && one.Lent
			if all[at].Gone && !one.Gone { // of a directory that has the inode of an earlier one
				all[at].Identity, all[at].Gone = one.Identity, false
			}
		}
	}
	for _, one := range by {
		at, there := index[key{one.path, one.Ino}]
		if there && !slices.Contains(all[at].Writers, one.Writer) {
			all[at].Writers = append(all[at].Writers, one.Writer)
		}
	}
	for i := range all {
		slices.SortStableFunc(all[i].Writers, func(a, b Writer) int { return a.At.Compare(b.At) })
	}
	slices.SortStableFunc(all, func(a, b Listed) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// Is reports whether an entry is of a path: by its name, or because what is there now was moved there.
func (l Listed) Is(path string) bool {
	var st dirfd.Stat
	return l.Path == path || st.Of(unix.AT_FDCWD, path) == nil && st.Same(l.Identity)
}

// Forget takes entries off the lists of a state directory, and off the usual ones. Before it does,
// while no sandbox can start, it calls check, and returns its error.
func Forget(ctx context.Context, state string, forget []Listed, check func() error) error {
	places := []string{state}
	if usual, err := UsualState(); err == nil {
		if usual = Real(usual); usual != "" && usual != state {
			places = append(places, usual)
		}
	}
	places = slices.DeleteFunc(places, func(dir string) bool { _, err := os.Lstat(filepath.Join(dir, writtenName)); return err != nil })
	for _, dir := range places {
		starts, err := awaitStarts(ctx, dir)
		if err != nil {
			return err
		}
		defer starts.Close() //nolint:gocritic // both, until all is done
	}
	if err := check(); err != nil {
		return err
	}
	for _, dir := range places {
		if err := forgetIn(dir, forget); err != nil {
			return err
		}
	}
	return nil
}

// awaitStarts waits until no sandbox starts, and keeps others from it until the file is closed.
func awaitStarts(ctx context.Context, state string) (*os.File, error) {
	for {
		f, err := lockFile(state, startsName, unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("a sandbox is starting: %w", ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// forgetIn takes entries off the lists in one state directory.
func forgetIn(state string, forget []Listed) error {
	lock, err := lockFile(state, writtenName+".lock", unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer lock.Close()
	named := func(e entry) bool {
		return slices.ContainsFunc(forget, func(l Listed) bool { return l.Path == e.path && l.Ino == e.Ino })
	}
	for name, mode := range map[string]fs.FileMode{writtenName: 0o600, LentName: 0o644} {
		w, err := readList(state, name, ownedByCaller)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if left := slices.DeleteFunc(slices.Clone(w.entries), named); len(left) < len(w.entries) {
			w.entries = left
			if err := Replace(filepath.Join(state, name), mode, []byte(w.String())); err != nil {
				return err
			}
		}
	}
	all, err := readWriters(state)
	if left := slices.DeleteFunc(slices.Clone(all), func(w written) bool { return named(w.entry) }); err == nil && len(left) < len(all) {
		err = writeWriters(state, left)
	}
	return err
}

// Unlist returns what to do about an entry of the list that is why something is refused.
func Unlist(path string) string { return "paddock written forget " + policy.ShellWord(path) }

// WasWritable says why an entry counts, and what to do about that.
func WasWritable(path string) string {
	return path + " was writable for them (" + Unlist(path) + " shows what is in it, and takes it off the list)"
}
