package layer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath/snapshot"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Bounds of screening.
const (
	maxRead      = 1 << 20   // bytes of a file that is compared; a larger one is held back
	maxLinks     = 40        // links that one path leads over, as the kernel has it
	maxLinkBytes = 256 << 20 // of the paths of all links and directories that are looked for links
	maxSteps     = 1 << 22   // names that are looked up to follow links; those in long paths count more
)

// Screen looks for changes that would run programs on the host, or steer those that run. It
// returns what it has found in the order of the changes.
func (l *Layer) Screen(ctx context.Context, changes []Change, opt ScreenOptions) ([]Finding, error) {
	s := &screen{opt: opt, source: int(l.Source.Fd()), upper: int(l.Upper.Fd()), byPath: make(map[string]*Change, len(changes)),
		gitDirs: map[string]bool{}, projects: map[string]bool{}, programs: map[string]bool{}, over: newInherited[*Change](), in: map[string][]string{}, places: map[string]*where{}, aliases: map[string]*policy.Obeyed{}, linked: map[string]bool{}}
	for i := range changes {
		if ch := &changes[i]; s.byPath[ch.Path] == nil || ch.Kind == Renamed {
			s.byPath[ch.Path] = ch
			dir, name := splitPath(ch.Path)
			s.in[dir] = append(s.in[dir], name)
			if ch.Kind != Modified {
				s.over.own[ch.Path] = ch
			}
		}
	}
	s.folding = folding(s.source)
	s.path, _ = os.Readlink("/proc/self/fd/" + strconv.Itoa(s.source))
	if err := s.findLinks(ctx, changes); err != nil {
		return nil, err
	}
	unknown := s.spent()
	s.steps = 0
	for i := range changes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if unknown {
			s.add(&changes[i], changes[i].Path, Hold, "", "there are too many links to tell which lead to it")
		}
		if err := s.change(ctx, &changes[i]); err != nil {
			return nil, err
		}
	}
	return s.found, nil
}

// screen is one call of Screen.
type screen struct {
	opt           ScreenOptions
	source, upper int
	path          string // of the source
	folding       bool   // its file system does not tell all names apart
	byPath        map[string]*Change
	over          inherited[*Change]  // those that say what is below their paths
	in            map[string][]string // the names that change in a directory
	gitDirs       map[string]bool     // what isGitDir has found
	projects      map[string]bool     // what isProject has found
	programs      map[string]bool     // what isProgram has found
	places        map[string]*where
	aliases       map[string]*policy.Obeyed // by where links lead
	linked        map[string]bool           // directories whose links were looked for
	steps         int                       // that resolve has taken
	found         []Finding
}

// spent reports whether links take more steps than are taken.
func (s *screen) spent() bool { return s.steps > maxSteps }

func (s *screen) add(ch *Change, at string, level Level, tool, why string) {
	f := Finding{Path: ch.Path, Level: level, Tool: tool, Why: why}
	if at != ch.Path {
		f.At = at
	}
	if !slices.Contains(s.found[max(0, len(s.found)-8):], f) {
		s.found = append(s.found, f)
	}
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
		return false // XFS folds only where it was made to, with ASCII alone, which foldName covers
	case unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC:
		const casefold = 0x40000000
		flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
		return err == nil && flags&casefold != 0
	}
	return true
}

// same reports whether the source has one file under two names of a directory.
func (s *screen) same(dir, name, other string) bool {
	if !s.folding {
		return false
	}
	a, err := look(s.source, joinPath(dir, name))
	if err != nil {
		return false
	}
	b, err := look(s.source, joinPath(dir, other))
	return err == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// after returns what is at a path after all changes.
func (s *screen) after(p string) (e Entry, there bool) {
	if ch := s.byPath[p]; ch != nil {
		return ch.New, ch.Kind != Deleted
	}
	switch ch := s.over.above(p); {
	case ch == nil:
		return s.before(p)
	case ch.Kind == Renamed:
		return s.before(ch.From + p[len(ch.Path):])
	}
	return e, false
}

// before returns what the source has at a path.
func (s *screen) before(p string) (e Entry, there bool) {
	if dir, name := splitPath(p); s.opt.Names != nil && !s.folding && (snapshot.DirNames{}).Lacks(name) {
		if names, known := s.opt.Names(dir); known && names.Lacks(name) {
			return e, false
		}
	}
	st, err := look(s.source, p)
	if err != nil {
		return e, false
	}
	e.Mode = modeOf(st.Mode)
	if e.Mode&fs.ModeSymlink != 0 {
		e.Link, _ = linkAt(s.source, p)
	}
	return e, true
}

// has reports whether something is at a path after all changes.
func (s *screen) has(p string) bool {
	_, there := s.after(p)
	return there
}

// isGitDir reports whether the name of a directory is that of a repository's own, or the source has
// one there.
func (s *screen) isGitDir(dir string) bool {
	is, known := s.gitDirs[dir]
	if !known {
		had := func(name string) bool {
			_, there := s.before(joinPath(dir, name))
			return there
		}
		_, name := splitPath(dir)
		is = foldName(name) == ".git" || s.same(dir[:max(0, len(dir)-len(name)-1)], name, ".git") ||
			had("HEAD") && (had("commondir") || had("objects") && had("refs"))
		s.gitDirs[dir] = is
	}
	return is
}

// isProject reports whether a directory has a repository, or had one.
func (s *screen) isProject(dir string) bool {
	is, known := s.projects[dir]
	if !known {
		at := joinPath(dir, ".git")
		_, is = s.before(at)
		is = is || (s.byPath[at] != nil || s.over.above(at) != nil) && s.has(at)
		s.projects[dir] = is
	}
	return is
}

// resolve returns where a path leads after all changes, over links in the source. It reports false
// if it leads out of the source, or that cannot be told with the steps that are left. With back, a
// link may lead out and in again, as those with an absolute path do.
func (s *screen) resolve(p string, back bool) (to string, inside bool) {
	var done []string
	rest := strings.Split(p, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			if len(done) > 0 {
				done = done[:len(done)-1]
				continue
			}
			in, ok := s.within(s.path+"/../"+strings.Join(rest, "/"), true)
			if !back || !ok {
				return "", false
			}
			rest = strings.Split(in, "/")
			continue
		}
		done = append(done, name)
		at := strings.Join(done, "/")
		if s.steps += 1 + len(at)>>6; s.spent() {
			return "", false
		}
		e, there := s.after(at)
		if !there || e.Mode&fs.ModeSymlink == 0 {
			continue
		}
		if links++; links > maxLinks {
			return "", false
		}
		done = done[:len(done)-1]
		if to := e.Link; strings.HasPrefix(to, "/") {
			in, ok := s.within(to, s.byPath[at] == nil)
			if !back || !ok {
				return "", false
			}
			done, rest = nil, append(strings.Split(in, "/"), rest...)
			continue
		}
		rest = append(strings.Split(e.Link, "/"), rest...)
	}
	return strings.Join(done, "/"), true
}

// within returns an absolute path of the host relative to the source, if it leads there by its text
// or, for own links of the host, over others.
func (s *screen) within(abs string, own bool) (rel string, ok bool) {
	if s.path == "" {
		return "", false
	}
	rel, ok = strings.CutPrefix(filepath.Clean(abs)+"/", s.path+"/")
	if ok || !own {
		return rel, ok
	}
	at, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(at+"/", s.path+"/")
}

// change screens one change.
func (s *screen) change(ctx context.Context, ch *Change) error {
	if ch.Kind == Deleted || ch.Kind == Retyped || ch.Kind == Renamed {
		if err := s.lost(ctx, ch); err != nil {
			return err
		}
	}
	for _, n := range s.opt.Named {
		if within(ch.Path, n.Path) || within(n.Path, ch.Path) && (ch.Kind != Added && ch.Kind != Modified || !ch.New.Mode.IsDir()) {
			s.add(ch, ch.Path, Hold, n.Tool, n.Why)
		}
	}
	if ch.Kind == Deleted {
		return nil
	}
	if ch.Kind == Renamed {
		return s.moved(ctx, ch)
	}
	s.arrival(ch, ch.Path, ch.New, s.upper, ch.Path)
	return nil
}

// lost screens what the source has at the path of a change, and loses by it.
func (s *screen) lost(ctx context.Context, ch *Change) error {
	err := walkTree(ctx, s.source, ch.OldPath(), func(rel string, st *unix.Stat_t) error {
		is := shape{gone: true, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR, link: st.Mode&unix.S_IFMT == unix.S_IFLNK}
		m, ok := s.obeyed(rel, is)
		if !ok {
			return nil
		}
		if m.Class == policy.Unasked {
			s.add(ch, rel, Hold, m.Tool, m.Why+"; it is removed")
			return io.EOF
		}
		if rel == ch.OldPath() {
			s.add(ch, rel, Mark, m.Tool, m.Why+"; it is removed")
		}
		return nil
	})
	return s.unseen(ch, err)
}

// unseen holds back what cannot be looked at.
func (s *screen) unseen(ch *Change, err error) error {
	var many *TooManyError
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, unix.ENOENT):
		return nil
	case errors.As(err, &many), errors.Is(err, unix.EACCES), gone(err):
		s.add(ch, ch.Path, Hold, "", "it was not looked at: "+err.Error())
		return nil
	}
	return fmt.Errorf("cannot screen %s: %w", text.QuoteName(ch.Path), err)
}

// moved screens what a renamed directory brings to its new path.
func (s *screen) moved(ctx context.Context, ch *Change) error {
	err := walkTree(ctx, s.source, ch.From, func(rel string, st *unix.Stat_t) error {
		p := ch.Path + strings.TrimPrefix(rel, ch.From)
		e := Entry{Mode: modeOf(st.Mode), Size: st.Size}
		if rel != ch.From && s.byPath[p] != nil {
			if !s.byPath[p].New.Mode.IsDir() {
				return fs.SkipDir
			}
			return nil // it is a change of its own
		}
		if e.Mode&fs.ModeSymlink != 0 {
			e.Link, _ = linkAt(s.source, rel)
		}
		return s.arrivalIn(ch, p, e, rel)
	})
	return s.unseen(ch, err)
}

func (s *screen) arrivalIn(ch *Change, p string, e Entry, from string) error {
	n := len(s.found)
	s.arrival(ch, p, e, s.source, from)
	for _, f := range s.found[n:] {
		if f.Level == Hold {
			return io.EOF // one is enough to hold all of it back
		}
	}
	return nil
}

// arrival screens what a change brings to a path: e, with the content that one side has at from.
func (s *screen) arrival(ch *Change, p string, e Entry, side int, from string) {
	hold := func(tool, why string) { s.add(ch, p, Hold, tool, why) }
	is := shape{dir: e.Mode.IsDir(), link: e.Mode&fs.ModeSymlink != 0}
	m, ok := s.obeyed(p, is)
	if ok {
		why := m.Why
		if m.alike {
			why = "some file systems do not tell it from " + m.Path + ": " + why
		}
		s.judge(ch, p, e, m, why, side, from)
	}
	switch {
	case e.Mode&(fs.ModeDevice|fs.ModeSocket) != 0:
		s.add(ch, p, Never, "", "devices and sockets never land")
	case e.Mode&fs.ModeNamedPipe != 0:
		hold("", "programs that read a pipe wait for one that writes")
	case is.link:
		dir, _ := splitPath(p)
		to, inside := s.resolve(joinPath(dir, e.Link), false)
		switch {
		case s.spent():
			hold("", "there are too many links to tell where it leads")
		case !inside || strings.HasPrefix(e.Link, "/"):
			hold("", "the link leads out of your directory")
		case to == "":
		default:
			at, _ := s.after(to)
			if o, into := s.obeyed(to, shape{dir: at.Mode.IsDir()}); into && o.Class == policy.Unasked || slices.ContainsFunc(strings.Split(to, "/"), func(n string) bool { return foldName(n) == ".git" }) {
				hold("", "the link leads to "+text.QuoteName(to)+", which programs of the host obey")
			}
		}
	case e.Mode.IsRegular() && e.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		hold("", "who runs it would become another user; the bit itself does not land in any case")
	}
	executable := is.link || e.Mode.IsRegular() && e.Mode&0o111 != 0
	if executable && !ok {
		s.program(ch, p, ch.Kind != Modified || ch.Old.Mode&0o111 == 0)
	}
}

// judge records that a change is of a path that programs obey.
func (s *screen) judge(ch *Change, p string, e Entry, m matched, why string, side int, from string) {
	switch other := s.shadowed(p); {
	case m.Class == policy.Unasked:
		if e.Mode.IsDir() && m.Path != ".git" && m.Dir && !m.alike && ch.Kind != Renamed && m.Under != policy.GitDir {
			return // what is in it is looked at by itself
		}
		s.add(ch, p, Hold, m.Tool, why)
	case e.Mode.IsDir():
	case other != "" && (ch.Kind == Added || ch.Kind == Retyped || ch.Kind == Renamed):
		s.add(ch, p, Hold, m.Tool, "it takes the place of "+other+": "+why)
	case m.Source && (!m.Everywhere || ch.Kind == Added) || e.Mode.IsRegular() && s.sameExecuted(ch, e, side, from):
		s.add(ch, p, Mark, m.Tool, why)
	default:
		s.add(ch, p, Hold, m.Tool, why)
	}
}

// sameExecuted reports whether a change leaves what is executed as it was.
func (s *screen) sameExecuted(ch *Change, e Entry, side int, from string) bool {
	_, name := splitPath(from)
	now, ok := readAll(side, from, e.Size)
	if !ok {
		return false
	}
	was := []byte{}
	if ch.Kind == Modified {
		if was, ok = readAll(s.source, ch.OldPath(), ch.Old.Size); !ok {
			return false
		}
	}
	return executed(name, now) == executed(name, was)
}

// readAll reads a file that is not too large.
func readAll(dir int, rel string, size int64) ([]byte, bool) {
	if size > maxRead {
		return nil, false
	}
	f, _, err := openFile(dir, rel)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	all, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	return all, err == nil && len(all) <= maxRead
}

// program screens a file that is executable, or a link. fresh says that it was not before.
func (s *screen) program(ch *Change, p string, fresh bool) {
	dir, name := splitPath(p)
	for _, d := range s.opt.Search {
		if rel, err := filepath.Rel(s.path, d); err == nil && (rel == dir || rel == "." && dir == "") {
			s.add(ch, p, Hold, "shells", "shells find programs in its directory")
			return
		}
	}
	filled := slices.ContainsFunc(strings.Split(dir, "/"), snapshot.Fills)
	if fresh && !filled && s.isProgram(name) {
		s.add(ch, p, Hold, "shells", "it is named like the program "+name+", and runs instead of it where a shell searches its directory")
	}
}

// isProgram reports whether the host has a program of a name.
func (s *screen) isProgram(name string) bool {
	is, known := s.programs[name]
	if !known {
		is = slices.ContainsFunc(s.opt.Search, func(dir string) bool {
			fi, err := os.Stat(filepath.Join(dir, name))
			return filepath.IsAbs(dir) && err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
		})
		s.programs[name] = is
	}
	return is
}
