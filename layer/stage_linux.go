package layer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer/delta"
)

// item is one file of a unit: where it lands, and what it is a copy of.
type item struct {
	path  string
	from  string // in the layer, or in the source
	upper bool
	entry Entry
	old   *Entry // of the same type in the source, at was; nil: it is new
	was   string
	sum   []byte // of what was copied
}

// changedItem returns the item of a change.
func changedItem(ch *Change) item {
	i := item{path: ch.Path, from: ch.Path, upper: true, entry: ch.New}
	if ch.Kind == Modified || ch.Kind == Renamed {
		i.old, i.was = &ch.Old, ch.OldPath()
	}
	return i
}

// landingMode returns the permissions that land. Commands give them to what is new, less what the
// host's user would not give. What the source has keeps its own: commands take permissions away,
// but not that of others to write, which their own umask takes whenever they write a file anew;
// they add none but to execute. Set-id bits do not land.
func (c *commit) landingMode(mode fs.FileMode, old *Entry) uint32 {
	bits := mode.Perm() &^ c.umask
	if old != nil {
		was := old.Mode.Perm()
		bits = was&(mode.Perm()|0o022) | bits&0o111
	}
	if mode.IsDir() && (mode&fs.ModeSticky != 0 || old != nil && old.Mode&fs.ModeSticky != 0) {
		return uint32(bits) | unix.S_ISVTX
	}
	return uint32(bits)
}

// readUmask returns the permissions that this process does not give to what it makes. Asking the
// kernel would change them for an instant, also for other threads.
func readUmask() (fs.FileMode, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("cannot read the umask: %w", err)
	}
	_, line, _ := strings.Cut(string(text), "\nUmask:")
	line, _, _ = strings.Cut(line, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 8, 9)
	if err != nil {
		return 0, fmt.Errorf("cannot read the umask in /proc/self/status: %w", err)
	}
	return fs.FileMode(mask), nil
}

// list lists the items of a unit, a directory before what is in it.
func (c *commit) list(ctx context.Context, u *unit) error {
	byPath := map[string]*Change{}
	for _, ch := range u.below {
		if was, there := byPath[ch.Path]; !there || was.Kind == Deleted {
			byPath[ch.Path] = ch
		}
	}
	if u.Kind != Renamed {
		u.items = append(make([]item, 0, 1+len(u.below)), changedItem(u.Change))
	} else if err := c.merge(ctx, u, u.Change, byPath); err != nil {
		return err
	}
	for _, ch := range u.below { // new in it
		if now, there := byPath[ch.Path]; there && now.Kind == ch.Kind {
			if ch.Kind == Renamed {
				if err := c.merge(ctx, u, ch, byPath); err != nil {
					return err
				}
				continue
			}
			if ch.Kind != Deleted {
				u.items = append(u.items, changedItem(ch))
			}
			delete(byPath, ch.Path)
		}
	}
	return nil
}

// merge lists what a renamed directory holds: what the source has, with what has changed in it.
// It takes what it lists from the changes.
func (c *commit) merge(ctx context.Context, u *unit, renamed *Change, changes map[string]*Change) error {
	delete(changes, renamed.Path)
	u.items = append(u.items, changedItem(renamed))
	return walkTree(ctx, c.source, renamed.From, func(rel string, st *unix.Stat_t) error {
		if rel == renamed.From {
			return nil
		}
		p := renamed.Path + strings.TrimPrefix(rel, renamed.From)
		if ch, changed := changes[p]; changed {
			if ch.Kind == Renamed || ch.Kind == Deleted {
				return fs.SkipDir
			}
			delete(changes, p)
			u.items = append(u.items, changedItem(ch))
			if !ch.New.Mode.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		i := item{path: p, from: rel, was: rel, entry: Entry{Mode: modeOf(st.Mode), Size: st.Size, Identity: identityOf(st)}}
		i.entry.ModTime = i.entry.Identity.Mtime
		if i.entry.Mode&fs.ModeSymlink != 0 {
			var err error
			if i.entry.Link, err = linkAt(c.source, rel); err != nil {
				return err
			}
		}
		own := i.entry
		i.old = &own
		if i.entry.Mode&(fs.ModeDevice|fs.ModeSocket) == 0 {
			u.items = append(u.items, i)
		}
		return nil
	})
}

// owner is who owns what lands.
type owner struct{ uid, gid int }

// ownerAt returns who owns a file that lands in a directory: the owner of what it replaces, or of
// the directory. Only root can give files away; a user's are the user's.
func (c *commit) ownerAt(parent int, name string) (*owner, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nobody else can own it
	}
	st, err := look(parent, name)
	if gone(err) {
		st, err = look(parent, "")
	}
	return &owner{int(st.Uid), int(st.Gid)}, err
}

// stage makes a unit under its temporary name. Others may write in the directory where that is, so
// that the name is used once: from then on it is known by its handle.
func (c *commit) stage(ctx context.Context, u *unit) error {
	dir, name := delta.Split(u.Path)
	_, temp := delta.Split(string(u.step.Temp))
	parent, err := reach(c.source, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("cannot open the directory of %s: %w", text.QuoteName(u.Path), err)
	}
	defer func() { _ = unix.Close(parent) }()
	who, err := c.ownerAt(parent, name)
	if err != nil {
		return fmt.Errorf("cannot look at the directory of %s: %w", text.QuoteName(u.Path), err)
	}
	c.before("copy " + u.items[0].path)
	top, err := c.make(ctx, parent, temp, &u.items[0], who)
	if err != nil {
		return fmt.Errorf("cannot copy %s: %w", text.QuoteName(u.Path), err)
	}
	defer top.Close()
	st, err := look(int(top.Fd()), "")
	if err != nil {
		return fmt.Errorf("cannot copy %s: %w", text.QuoteName(u.Path), err)
	}
	u.step.Ino = st.Ino
	if err := c.fill(ctx, u, int(top.Fd()), who); err != nil {
		return err
	}
	if u.step.Deed != exchange || !u.New.Mode.IsRegular() {
		return nil
	}
	err = keepACL(parent, name, u.step, int(top.Fd()), c.landingMode(u.New.Mode, u.items[0].old))
	if errors.Is(err, errOther) {
		return &ConflictError{[]Conflict{{Path: u.Path, Why: errOther.Error()}}}
	}
	if err != nil {
		return fmt.Errorf("cannot copy the access control list of %s: %w", text.QuoteName(u.Path), err)
	}
	return nil
}

// fill makes what is in a new tree, and then finishes its directories. Nobody else can enter it before
// its top is finished.
func (c *commit) fill(ctx context.Context, u *unit, top int, who *owner) error {
	rel := func(i *item) string { return strings.TrimPrefix(i.path[len(u.Path):], "/") }
	for n := 1; n < len(u.items); n++ {
		i := &u.items[n]
		c.before("copy " + i.path)
		if err := c.makeIn(ctx, top, rel(i), i, who); err != nil {
			return fmt.Errorf("cannot copy %s: %w", text.QuoteName(i.path), err)
		}
	}
	for n := len(u.items) - 1; n >= 0; n-- { // a directory after what is in it
		if i := &u.items[n]; i.entry.Mode.IsDir() {
			if err := c.finishDir(top, rel(i), i, who); err != nil {
				return fmt.Errorf("cannot copy %s: %w", text.QuoteName(i.path), err)
			}
		}
	}
	return nil
}

func (c *commit) before(what string) {
	if c.opt.at != nil {
		c.opt.at(what)
	}
}

// makeIn makes one file of a new tree.
func (c *commit) makeIn(ctx context.Context, top int, rel string, i *item, who *owner) error {
	dir, name := delta.Split(rel)
	parent, err := reach(top, dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	f, err := c.make(ctx, parent, name, i, who)
	if err != nil {
		return err
	}
	return f.Close()
}

// make makes one file, and returns a handle of it. A directory is empty, and its owner's alone.
func (c *commit) make(ctx context.Context, parent int, name string, i *item, who *owner) (f *os.File, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	switch mode := i.entry.Mode; {
	case mode.IsRegular():
		return c.copy(ctx, parent, name, i, who)
	case mode.IsDir():
		err = unix.Mkdirat(parent, name, 0o700)
	case mode&fs.ModeSymlink != 0:
		err = unix.Symlinkat(i.entry.Link, parent, name)
	case mode&fs.ModeNamedPipe != 0:
		err = unix.Mknodat(parent, name, unix.S_IFIFO|uint32(mode.Perm()), 0)
	default:
		err = errors.New("it is a device or a socket")
	}
	if err != nil {
		return nil, err
	}
	c.before("open " + i.path)
	if f, err = openMade(parent, name, &i.entry); err != nil || i.entry.Mode.IsDir() {
		return f, err
	}
	if err = who.give(int(f.Fd())); err == nil {
		err = setTimes(int(f.Fd()), &i.entry)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// errTaken says that a handle is not of what this process has made.
var errTaken = errors.New("another program has put something else at its temporary name: try again, when nothing else changes the directory")

// openMade opens what this process has just made at a name, with O_PATH. If something else is there,
// that is an error, unless the two are alike.
func openMade(dir int, name string, e *Entry) (*os.File, error) {
	fd, err := openBeneath(dir, name, unix.O_PATH)
	if gone(err) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	st, err := look(fd, "")
	alike := err == nil && modeOf(st.Mode).Type() == e.Mode.Type() && (e.Mode.IsDir() || st.Nlink == 1)
	switch {
	case !alike:
	case e.Mode.IsDir():
		var list []string
		list, err = names(fd, "")
		alike = len(list) == 0
	case e.Mode&fs.ModeSymlink != 0:
		buf := make([]byte, unix.PathMax+1)
		var n int
		n, err = unix.Readlinkat(fd, "", buf)
		alike = string(buf[:max(n, 0)]) == e.Link
	}
	if err == nil && !alike {
		err = errTaken
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// give gives what this process has made to the owner, unless it is the owner's.
func (o *owner) give(fd int) error {
	if o == nil {
		return nil
	}
	st, err := look(fd, "")
	switch {
	case err != nil:
		return err
	case int(st.Uid) == o.uid && int(st.Gid) == o.gid:
		return nil
	case int(st.Uid) != os.Geteuid():
		return errTaken
	}
	return unix.Fchownat(fd, "", o.uid, o.gid, unix.AT_EMPTY_PATH)
}

func setTimes(fd int, e *Entry) error {
	ts, err := unix.TimeToTimespec(e.ModTime)
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(unix.AT_FDCWD, handlePath(fd), []unix.Timespec{{Nsec: unix.UTIME_NOW}, ts}, 0)
}

// finishDir gives a directory its owner, permissions and times.
func (c *commit) finishDir(top int, rel string, i *item, who *owner) error {
	fd, err := reach(top, rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := who.give(fd); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := c.keepAttributes(fd, i); err != nil {
		return err
	}
	if err := setTimes(fd, &i.entry); err != nil {
		return err
	}
	return unix.Fchmod(fd, c.landingMode(i.entry.Mode, i.old)|st.Mode&unix.S_ISGID) // which it has from the directory it is in
}

// copy copies a regular file with its holes, permissions and times, and returns a handle of it.
func (c *commit) copy(ctx context.Context, dir int, name string, i *item, who *owner) (*os.File, error) {
	side := c.source
	if i.upper {
		side = c.upper
	}
	in, st, err := openFile(side, i.from)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	if !identityOf(&st).Still(i.entry.Identity) {
		return nil, &ChangedError{Path: i.from, Source: !i.upper}
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	out := os.NewFile(uintptr(fd), name)
	err = c.copyTo(ctx, out, in, &st, i)
	if err == nil {
		err = c.keepAttributes(fd, i)
	}
	if err == nil {
		err = who.give(fd)
	}
	if err == nil {
		err = unix.Fchmod(fd, c.landingMode(i.entry.Mode, i.old))
	}
	if err == nil {
		err = setTimes(fd, &i.entry)
	}
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	c.progress.Path, c.progress.Files = i.path, c.progress.Files+1
	c.tell()
	return out, nil
}

// copyTo copies the content of a file that does not change meanwhile.
func (c *commit) copyTo(ctx context.Context, out, in *os.File, st *unix.Stat_t, i *item) error {
	var h hash.Hash
	if st.Size <= maxSum {
		h = sha256.New()
	}
	if err := c.copyData(ctx, out, in, st.Size, h); err != nil {
		return err
	}
	if h != nil {
		i.sum = h.Sum(nil)
	}
	if now, err := look(int(in.Fd()), ""); err != nil || identityOf(&now) != identityOf(st) {
		return errors.Join(&ChangedError{Path: i.from, Source: !i.upper}, err)
	}
	return nil
}

func (c *commit) tell() {
	if c.opt.Progress != nil {
		c.opt.Progress(c.progress)
	}
}

// piece is how much is copied at a time.
const piece = 4 << 20

// copyData copies what is in a file and not its holes.
func (c *commit) copyData(ctx context.Context, out, in *os.File, size int64, h hash.Hash) error {
	if h != nil { // small: the hash is of holes, too
		return c.copyHashed(ctx, out, in, size, h)
	}
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		hole := size
		if err == nil {
			hole, err = unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		}
		if err != nil {
			return err
		}
		for data < min(hole, size) {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(piece, hole-data)
			if _, err := in.Seek(data, io.SeekStart); err != nil {
				return err
			}
			if _, err := out.Seek(data, io.SeekStart); err != nil {
				return err
			}
			got, err := io.CopyN(out, in, n)
			if err != nil {
				return err
			}
			data += got
			c.progress.Bytes += got
			c.tell()
		}
		at = hole
	}
	return out.Truncate(size)
}

var zeros [64 << 10]byte

// copyHashed copies a file and its hash, and leaves holes where it has nothing but zeros.
func (c *commit) copyHashed(ctx context.Context, out, in *os.File, size int64, h hash.Hash) error {
	buf := make([]byte, len(zeros))
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := in.ReadAt(buf[:min(int64(len(buf)), size-at)], at)
		if n == 0 && err != nil {
			return err
		}
		h.Write(buf[:n])
		if string(buf[:n]) != string(zeros[:n]) {
			if _, err := out.WriteAt(buf[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		c.progress.Bytes += int64(n)
	}
	return out.Truncate(size)
}

// keepAttributes gives what lands the attributes of users that the source has at its place. Those
// that commands gave it stay behind: programs of the host believe some of them, such as where a
// file was loaded from.
func (c *commit) keepAttributes(to int, i *item) error {
	if i.old == nil {
		return nil
	}
	from, err := reach(c.source, i.was, unix.O_RDONLY|unix.O_NONBLOCK)
	if gone(err) || errors.Is(err, unix.EACCES) { // what its owner cannot read has none to be read, either
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(from) }()
	list := make([]byte, 64<<10)
	n, err := unix.Flistxattr(from, list)
	if errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(strings.TrimRight(string(list[:n]), "\x00"), "\x00") {
		if !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		n, err := unix.Fgetxattr(from, name, value)
		if err != nil {
			return err
		}
		if err := unix.Fsetxattr(to, name, value[:n], 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return err
		}
	}
	return nil
}

const accessList = "system.posix_acl_access"

// keepACL gives a file the access control list of the one that it replaces, within its permissions.
// errOther says that another file is in the place of that one.
func keepACL(parent int, was string, s *step, to int, mode uint32) error {
	value := make([]byte, 64<<10)
	n := 0
	err := byHandle(parent, was, func(path string) (err error) {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return err
		}
		if st.Ino != s.Expect.Ino && !s.Any {
			return errOther
		}
		n, err = unix.Getxattr(path, accessList, value)
		return err
	})
	if gone(err) || errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(unix.Setxattr(handlePath(to), accessList, value[:n], 0), unix.Fchmod(to, mode))
}

// byHandle calls f with a path that leads to a file of a directory, whatever its permissions are.
func byHandle(dir int, name string, f func(path string) error) error {
	fd, err := reach(dir, name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return f(handlePath(fd))
}

// handlePath returns a path that leads to what a handle is of, which may be opened with O_PATH.
func handlePath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
