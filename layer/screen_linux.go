package layer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/layer/delta"
	"github.com/paddock-dev/paddock/obeyed"
)

// These describe what screening finds.
type (
	// Finding is what screening has found about a change.
	Finding = obeyed.Finding
	// Level says what becomes of such a change.
	Level = obeyed.Level
	// ScreenOptions are what screening must know of the host. Source and Folding are found out.
	ScreenOptions = obeyed.JudgeOptions
)

// Levels of findings, the least first.
const (
	Mark  = obeyed.Mark
	Hold  = obeyed.Hold
	Never = obeyed.Never
)

// Screen looks for changes that would run programs on the host, or steer those that run, if all of
// them landed. It returns what it has found in the order of the changes.
func (l *Layer) Screen(ctx context.Context, changes []Change, opt ScreenOptions) ([]Finding, error) {
	return l.judge(changes, opt).Findings(ctx, func(int) bool { return true })
}

// judge returns the judge of changes.
func (l *Layer) judge(changes []Change, opt ScreenOptions) *obeyed.Judge {
	source := int(l.Source.Fd())
	opt.Folding = folding(source)
	opt.Source, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(source))
	return obeyed.NewJudge(judged(source), judged(l.Upper.Fd()), changes, opt)
}

// judged is an open directory as a tree for the judge.
type judged int

// Look describes a path.
func (f judged) Look(rel string) (delta.Entry, error) {
	st, err := look(int(f), rel)
	if err != nil {
		return delta.Entry{}, err
	}
	e := delta.Entry{Mode: modeOf(st.Mode), Size: st.Size}
	if e.Mode&fs.ModeSymlink != 0 {
		e.Link, err = linkAt(int(f), rel)
	}
	return e, err
}

// List returns the names in a directory.
func (f judged) List(rel string) (n obeyed.DirNames, err error) {
	fd, err := reach(int(f), rel, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return n, err
	}
	defer func() { _ = unix.Close(fd) }()
	return obeyed.ListNames(fd, maxSeen)
}

// Read returns the content of a file that is not too large.
func (f judged) Read(rel string) ([]byte, bool) {
	const most = 1 << 20
	file, st, err := openFile(int(f), rel)
	if err != nil {
		return nil, false
	}
	defer file.Close()
	if st.Size > most {
		return nil, false
	}
	all, err := io.ReadAll(io.LimitReader(file, most+1))
	return all, err == nil && len(all) <= most
}

// Sum returns the SHA-256 of a file.
func (f judged) Sum(ctx context.Context, rel string) ([]byte, error) {
	file, _, err := openFile(int(f), rel)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h := sha256.New()
	for {
		switch _, err := io.CopyN(h, file, piece); {
		case errors.Is(err, io.EOF):
			return h.Sum(nil), nil
		case err != nil:
			return nil, err
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
	}
}

// Walk visits a tree.
func (f judged) Walk(ctx context.Context, rel string, visit func(rel string, e delta.Entry) error) error {
	err := walkTree(ctx, int(f), rel, func(rel string, st *unix.Stat_t) error {
		return visit(rel, delta.Entry{Mode: modeOf(st.Mode), Size: st.Size})
	})
	var many *TooManyError
	if errors.As(err, &many) {
		return fmt.Errorf("%w: %w", obeyed.ErrTooMany, err)
	}
	return err
}

// folding reports whether a file system may take different names for one.
func folding(dir int) bool {
	fd, err := reach(dir, "", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return true
	}
	defer func() { _ = unix.Close(fd) }()
	var st unix.Statfs_t
	if unix.Fstatfs(fd, &st) != nil {
		return true
	}
	switch uint32(st.Type) {
	case unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return false // XFS folds only where it was made to, with ASCII alone, which folded names cover
	case unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
		const casefold = 0x40000000
		flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
		return err == nil && flags&casefold != 0
	}
	return true
}
