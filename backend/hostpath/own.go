package hostpath

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// programs are Paddock's programs, which are installed in one directory.
var programs = []string{"paddock", "paddock-server", "paddock-agent", "paddock-egress", "paddock-keeper"}

const (
	ownState   = "Paddock's own state"
	ownProgram = "Paddock's own program"
	// OwnStore is what stays between sandboxes, of which each sees only its own part.
	OwnStore = "Paddock's own caches"
)

// OwnFiles returns the files and directories of Paddock's own that commands of a
// request's sandbox must not change, the state first.
func OwnFiles(req backend.Request) []backend.OwnFile {
	own := []backend.OwnFile{
		{Path: req.StateDir, What: ownState, Hidden: true, Dir: true},
		{Path: req.Agent, What: ownProgram},
	}
	if self, err := os.Executable(); err == nil {
		own = append(own, backend.OwnFile{Path: self, What: ownProgram})
		for _, name := range programs {
			own = append(own, backend.OwnFile{Path: filepath.Join(filepath.Dir(self), name), What: ownProgram, Spare: true})
		}
	}
	return append(own, req.Own...)
}

// Cover is one of Paddock's own files that lies in a mount.
type Cover struct {
	backend.OwnFile
	Path string // free of symbolic links
	Dir  bool
}

// Covers returns those of Paddock's own files that a backend must cover: files that writable
// mounts of a request would show, and hidden ones that any mount would show. A file that
// cannot be covered is an error. One start checks them only once, see [Seen].
func Covers(req backend.Request, mounts []Mount) ([]Cover, error) {
	s := seenBy(req)
	if s.covered {
		return s.covers, nil
	}
	var covers []Cover
	var errs []error
	more, all := writable(mounts), s.host()
	seen, made := map[string]bool{}, true
	for _, own := range OwnFiles(req) {
		if own.Path == "" || own.Spare && !own.Dir && apart(own.Path, mounts, all) {
			continue
		}
		way, err := s.follow(own.Path)
		switch {
		case err != nil, own.What == OwnStore: // its links are checked before it is used
		case own.Dir: // a state directory: its links were checked already, or it is not in use now
			for _, l := range way.Links {
				err = cmp.Or(err, way.changeable(l, more))
			}
		default:
			err = s.list.Judge(way, more)
		}
		switch {
		case own.Dir && own.Spare && (way == nil || err == nil && !way.IsDir() && (way.Exists || unix.Access(way.at(), unix.W_OK|unix.X_OK) != nil)): // there is none, and this user cannot make it
			for _, m := range mounts {
				if m.Writable && Under(own.Path, m.Source) {
					errs = append(errs, Refuse(m.named(), m.Source, "commands could make "+own.Path+" ("+own.What+"), which cannot be covered", "name another directory"))
				}
			}
			continue
		case own.Spare && !own.Dir && err != nil, // it is checked again before it is used
			errors.Is(err, unix.EACCES): // commands cannot reach what the caller cannot
			continue
		case err != nil:
			errs = append(errs, unusable(own, err))
			continue
		case seen[way.Path]:
			continue
		}
		seen[way.Path] = true
		made = made && (way.Exists || !own.Hidden)
		c := Cover{own, way.Path, own.Dir || way.Mode&unix.S_IFMT == unix.S_IFDIR}
		needed, err := c.in(way, mounts, otherPaths(all, way), req.Scratch)
		if needed = needed && !slices.ContainsFunc(covers, func(o Cover) bool { _, ok := Within(c.Path, o.Path); return ok && o.Hidden }); needed && err == nil {
			covers = append(covers, c)
		} else if needed {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return covers, errors.Join(errs...)
	}
	s.covers, s.covered = covers, made // one that is made later, perhaps in a read-only mount, must be checked again
	return covers, nil
}

// apart reports whether a program beside the running one is in none of the mounts. It need
// not follow the program's path, because the kernel gives the running one's without links.
func apart(file string, mounts []Mount, all map[string]mounted) bool {
	info, err := os.Lstat(file)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 || slices.ContainsFunc(mounts, func(m Mount) bool { return Under(file, m.Source) }) {
		return false
	}
	base := mountOf(all, file) // other mounts of its file system may show it too
	for _, m := range all {
		if m.device == base.device && m.at != base.at && slices.ContainsFunc(mounts, func(o Mount) bool { return Under(m.at, o.Source) || Under(o.Source, m.at) }) {
			return false
		}
	}
	return true
}

// in reports whether a file must be covered in one of the mounts. The error says why it
// cannot be. A file is never covered at another path than its own, because the host may
// change such a second mount at any time. scratch is a directory in the state that is the sandbox's
// own workspace, or empty.
func (c Cover) in(way *Way, mounts []Mount, o others, scratch string) (needed bool, err error) {
	for _, m := range mounts {
		if c.What == OwnStore && m.Stored != nil && !m.Stored.Downloads {
			continue
		}
		field := m.named()
		if at := c.other(way, o, m); at != "" && (m.Writable || c.Hidden) {
			return true, Refuse(field, m.Source, at+" is another path to "+c.what(), "name another directory, or the path of what is mounted there"+c.elsewhere())
		}
		if _, ok := Within(m.Source, c.Path); ok && c.Hidden && (scratch == "" || m.Source != scratch) {
			return true, Refuse(field, m.Source, "it is "+c.What, "name another directory"+c.elsewhere())
		}
		if _, ok := Within(c.Path, m.Source); !ok {
			continue
		}
		switch {
		case c.Hidden && m.Merged():
			return true, Refuse(field, m.Source, "it holds "+c.What+", which cannot be covered there", "keep it elsewhere"+c.elsewhere())
		case c.Hidden && m.Copied && !bare(c.Path):
			return true, Refuse(field, m.Source, "it holds "+c.What+", which must not be copied", "name another directory"+c.elsewhere())
		case !m.Writable && (!c.Hidden || !way.Exists):
			continue
		case c.Replaced:
			return true, Refuse(field, m.Source, "commands could put another file in the place of "+c.what(), "keep it outside of what commands can write"+c.elsewhere())
		case !way.Exists && c.Spare && !c.OwnFile.Dir:
			continue
		case !way.Exists && !c.OwnFile.Dir:
			return true, Refuse(field, m.Source, "commands could make "+c.what()+", which does not exist yet", "keep it outside of what commands can write, or make it first"+c.elsewhere())
		}
		needed = true
	}
	return needed, nil
}

// bare reports whether a directory does not exist, or has nothing that could be copied.
func bare(dir string) bool {
	f, err := os.Open(dir)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}

// named returns the field of a spec that names the mount.
func (m Mount) named() string {
	switch m.Field {
	case "mounts":
		return "mounts[" + strconv.Itoa(m.Index) + "].source"
	case "host_sockets":
		return "host_sockets[" + strconv.Itoa(m.Index) + "]"
	}
	return m.Field
}

// what returns the file's path, a description, and the field that names it.
func (c Cover) what() string {
	if c.Field == "" {
		return c.Path + " (" + c.What + ")"
	}
	return c.Path + " (" + c.What + ", " + c.Field + ")"
}

// elsewhere returns the end of a hint about Paddock's state.
func (c Cover) elsewhere() string {
	switch c.What {
	case ownState:
		return ", or move the state with PADDOCK_STATE_DIR"
	case OwnStore:
		return ", or move the caches with PADDOCK_CACHE_DIR"
	}
	return ""
}

// unusable returns the error of an own file whose path must not be used.
func unusable(own backend.OwnFile, err error) error {
	if e := (*LinkError)(nil); own.Dir && errors.As(err, &e) { // a state directory
		if own.Spare && own.Field == "" {
			return Refuse(own.What, own.Path, e.Error(), "choose a workspace (-w) in which that link does not lie")
		}
		variable := "PADDOCK_STATE_DIR"
		if strings.HasPrefix(own.Field, "PADDOCK_") {
			variable = own.Field
		}
		return Refuse(cmp.Or(own.Field, own.What), own.Path, e.Error(), "if you trust where the link leads, name that: "+variable+"="+e.Leads)
	}
	return Refuse(cmp.Or(own.Field, own.What), own.Path, Reason(err), Hint(err))
}

// Refused returns the error of a wall that cannot make mounts, and therefore cannot cover these
// files. It is nil if there is nothing to cover. instead is a wall that can.
func Refused(covers []Cover, mounts []Mount, wall, instead string) error {
	for _, c := range covers {
		for _, m := range mounts {
			if _, ok := Within(c.Path, m.Source); ok && (m.Writable || c.Hidden) {
				return Refuse(m.named(), m.Source, "commands could change "+c.what()+", which "+wall+" cannot cover",
					"name another directory"+c.elsewhere()+", or use "+instead+", which covers it")
			}
		}
	}
	return nil
}

// Remember adds the directories, and single files, that commands of a request's sandbox can
// change to the list in the state directory, before there are such commands. It adds
// nothing if commands have no walls, because they can change all that their user can.
// shared also adds them to the list in the usual state directory, if that can have one. Until the
// function that it returns is called, no entry is taken off these lists: the caller calls it once the
// sandbox is known to run, or has failed to start.
func Remember(req backend.Request, mounts []Mount, shared bool) (started func(), err error) {
	if req.Spec.Backend == policy.BackendHost {
		return func() {}, nil
	}
	covers, err := Covers(req, mounts)
	if err != nil {
		return nil, err
	}
	// Only this wall surely keeps commands from changing guarded paths: those that lead
	// from a worktree to its repository, and from there to the other worktrees.
	guards := req.Spec.Backend == policy.BackendLinux && req.Spec.Level == policy.LevelFull && !req.Spec.Allows(policy.DegradeNamespaces)
	var dirs []entry
	for _, m := range mounts {
		if !m.Writable || !m.Dir {
			continue
		}
		d := Dir{Path: m.Source, Identity: m.ID}
		e := entry{Identity: d.Identity, path: d.Path, field: m.named()}
		for _, c := range covers {
			if rel, ok := Within(c.Path, d.Path); ok && rel != "" {
				e.kept = append(e.kept, rel)
			}
		}
		for _, g := range req.Guards {
			// A guarded ".git" is a file that leads to the repository of a worktree.
			if rel, ok := Within(g.File, d.Path); ok && (rel == ".git" || rel != "" && g.Except != "") && guards {
				e.kept = append(e.kept, rel)
			}
		}
		dirs = append(dirs, e)
	}
	for _, m := range mounts {
		if m.Writable && !m.Dir && !slices.ContainsFunc(covers, func(c Cover) bool { return c.Path == m.Source }) {
			dirs = append(dirs, entry{Identity: m.ID, path: m.Source, field: m.named()})
		}
	}
	for _, c := range covers {
		if c.OwnFile.Dir {
			err = errors.Join(err, os.MkdirAll(c.Path, 0o700))
		}
	}
	if err != nil {
		return nil, listError(req.StateDir, req.StateDir, err)
	}
	var lent []entry
	for _, d := range dirs {
		// Commands behind a wrapper may be root, and can change the owner of their files.
		if slices.ContainsFunc(mounts, func(m Mount) bool {
			return m.ID == d.Identity && (m.UID != 0 || req.Spec.Backend == policy.BackendWrapper)
		}) {
			lent = append(lent, d)
		}
	}
	return seenBy(req).remember(req, dirs, lent, shared)
}

// committedName is the file of the state directory that says that the sources of layers which were
// committed are in the list. Commits add them; those of versions that did not are added once.
const committedName = "committed"

// Committed is a directory in which a commit lands, or has landed, what commands made.
type Committed struct {
	Source string // absolute, free of symbolic links
	// Landed reports whether something may have landed at a path relative to the source, or below or
	// instead of it; nil: everywhere.
	Landed func(rel string) bool
}

// entry returns the entry of a list for the directory, and whether it belongs to another user than
// root. Of what commands cannot change where they work in the directory itself, it keeps what
// nothing has landed at: files of Paddock's own, and those that lead from a worktree to its
// repository, and from there to the other worktrees.
func (c Committed) entry(s *Seen, own []backend.OwnFile) (e entry, lent bool, err error) {
	var st dirfd.Stat
	if err = st.Of(unix.AT_FDCWD, c.Source); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		return e, false, &fs.PathError{Op: "look at", Path: c.Source, Err: err}
	}
	e = entry{Identity: st.Identity, path: c.Source, field: "commit"}
	keep := func(rel string) {
		if rel != "" && c.Landed != nil && !c.Landed(rel) && !slices.Contains(e.kept, rel) {
			e.kept = append(e.kept, rel)
		}
	}
	for _, file := range own {
		if file.Path == "" {
			continue
		}
		if way, err := s.follow(file.Path); err == nil {
			rel, _ := Within(way.Path, c.Source)
			keep(rel)
		}
	}
	keep(".git")
	keep(".git/worktrees")
	return e, st.UID != 0, nil
}

// RememberCommit adds the directory in which a commit is about to land changes to the lists, as
// [Remember] does for a start. When it returns, they are on the disk.
func RememberCommit(req backend.Request, shared bool, c Committed) error {
	s := seenBy(req)
	e, lent, err := c.entry(s, OwnFiles(req))
	if err != nil {
		return listError(req.StateDir, req.StateDir, err)
	}
	dirs := []entry{e}
	if !lent {
		return s.rememberDurably(req, dirs, nil, shared)
	}
	return s.rememberDurably(req, dirs, dirs, shared)
}

// RememberCommitted adds directories to the lists in which commits of versions have landed something
// that did not add them, unless that was done before. find finds them, and Paddock's own files.
func RememberCommitted(state string, s *Seen, shared bool, find func() ([]Committed, []backend.OwnFile, error)) error {
	mark := filepath.Join(state, committedName)
	if _, err := os.Lstat(mark); err == nil {
		return nil
	}
	if _, err := os.Lstat(state); err != nil {
		return nil //nolint:nilerr // it has no layers
	}
	var dirs, lent []entry
	found, own, err := find()
	if err != nil {
		return listError(state, state, err)
	}
	for _, c := range found {
		e, others, err := c.entry(s, own)
		if err != nil {
			continue // it is gone
		}
		if dirs = append(dirs, e); others {
			lent = append(lent, e)
		}
	}
	if len(dirs) == 0 {
		_ = os.WriteFile(mark, nil, 0o600) // else the next start looks again
		return nil
	}
	if err := s.rememberDurably(backend.Request{StateDir: state}, dirs, lent, shared); err != nil {
		return err
	}
	if s.list, err = readLists(state); err == nil {
		err = os.WriteFile(mark, nil, 0o600)
	}
	if err != nil {
		return listError(state, state, err)
	}
	return nil
}

// rememberDurably is remember, after which a crash of the machine loses nothing. A commit has the lock of
// its layer meanwhile, which shows that it is at work.
func (s *Seen) rememberDurably(req backend.Request, dirs, lent []entry, shared bool) error {
	state := req.StateDir
	done, err := s.remember(req, dirs, lent, shared)
	if err != nil {
		return err
	}
	defer done()
	places := []string{state}
	if usual, err := s.usualList(); shared && err == nil && usual != state {
		places = append(places, usual)
	}
	for _, dir := range places {
		for _, name := range []string{writtenName, LentName, "."} {
			f, err := os.Open(filepath.Join(dir, name))
			if err == nil {
				err = errors.Join(f.Sync(), f.Close())
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return listError(state, dir, err)
			}
		}
	}
	return nil
}

// remember adds directories to the lists of a request's state directory. lent are those of them that
// belong to users other than root. Until done is called, no entry is taken off these lists.
func (s *Seen) remember(req backend.Request, dirs, lent []entry, shared bool) (done func(), err error) {
	var held []*os.File
	done = func() {
		for _, f := range held {
			_ = f.Close()
		}
	}
	by := Writer{ID: req.ID, State: req.StateDir, At: time.Now()}
	state := req.StateDir
	add := func(dir, list string, mode fs.FileMode, dirs []entry) error {
		f, err := remember(dir, list, mode, s.list, dirs, by)
		if err == nil {
			held = append(held, f)
		}
		return err
	}
	err = add(state, writtenName, 0o600, dirs)
	if usual, uerr := s.usualList(); shared && err == nil && uerr == nil {
		if usual != state {
			state, err = usual, add(usual, writtenName, 0o600, dirs)
		}
		if err == nil && os.Geteuid() == 0 && len(lent) > 0 {
			if err = add(usual, LentName, 0o644, lent); err == nil {
				err = openLent(usual)
			}
		}
	}
	_, lerr := readLent()
	switch {
	case err != nil:
		err = listError(req.StateDir, state, err)
	case lerr != nil && !errors.Is(lerr, fs.ErrNotExist):
		err = &backend.StartError{Stage: "state", Op: "read", Object: filepath.Join(RootState, LentName), Cause: Reason(lerr),
			Hint: "it lists what root's sandboxes could write of other users' directories: have root look at it, and remove it where it cannot be mended"}
	default:
		return done, nil
	}
	done()
	return nil, err
}

// listError returns the error of a list in a state directory that cannot be written. own is the state
// directory of the start.
func listError(own, state string, err error) error {
	hint := "it lists the directories that sandboxes could ever write; where it cannot be mended, remove it"
	switch {
	case Full(err) && state != own:
		hint = "make room in " + state + ": the list is kept in the usual place as well, whatever PADDOCK_STATE_DIR says"
	case Full(err):
		hint = RoomHint(err, state)
	case Unwritable(err):
		hint = "choose a writable directory with PADDOCK_STATE_DIR"
	case errors.Is(err, errTooMany):
		hint = "remove directories that sandboxes were started over and nobody needs, or the list: then links that commands made in those that stay are not known any more"
	}
	return &backend.StartError{Stage: "state", Op: "keep", Object: filepath.Join(state, writtenName), Cause: Reason(err), Hint: hint}
}
