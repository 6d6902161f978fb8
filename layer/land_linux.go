package layer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/layer/delta"
)

// KeptError is the error of a commit that was taken back while somebody else changed the same
// paths: both contents are kept.
type KeptError struct {
	// Paths has, for each path, the path beside it with what was there before the commit; "": the
	// directory of the path was removed meanwhile, or moved out of the source.
	Paths map[string]string
}

// Error names the first of them.
func (e *KeptError) Error() string {
	const shown = 5
	var said []string
	for _, p := range slices.Sorted(maps.Keys(e.Paths)) {
		switch to := e.Paths[p]; {
		case len(said) == shown:
			return fmt.Sprintf("%s; and %d more", strings.Join(said, "; "), len(e.Paths)-shown)
		case to == "":
			said = append(said, "the directory of "+shortName(p)+" was removed or moved away while the commit was taken back, with what was there before")
		default:
			said = append(said, shortName(p)+" was changed while the commit was taken back: what was there before is in "+shortName(to))
		}
	}
	return strings.Join(said, "; ")
}

// ForeignError is the error of a temporary name at which there is a directory that the commit has not
// put there. It is not removed.
type ForeignError struct{ Path string }

// Error says what to do.
func (e *ForeignError) Error() string {
	return "somebody else has put a directory at " + shortName(e.Path) + ", a temporary name of a commit: look at it, and move it away"
}

// errOther says that a step has replaced something else than what was looked at.
var errOther = errors.New("it changed while the commit landed")

// inParent calls f with the directory of a step's path.
func (s *step) inParent(source int, f func(dir int, name, temp string) error) error {
	parent, name := delta.Split(string(s.Path))
	dir, err := reach(source, parent, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(dir) }()
	_, temp := delta.Split(string(s.Temp))
	return f(dir, name, temp)
}

// inOpened is like inParent, also where a directory has lost the permissions for that by the commit.
func (s *step) inOpened(source int, f func(dir int, name, temp string) error) error {
	err := s.inParent(source, f)
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	var closed []func()
	defer func() {
		for _, restore := range slices.Backward(closed) {
			restore()
		}
	}()
	parent, _ := delta.Split(string(s.Path))
	for i := 0; i <= len(parent); i++ {
		if i < len(parent) && parent[i] != '/' {
			continue
		}
		fd, err := reach(source, parent[:i], unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			return err
		}
		st, err := look(fd, "")
		if err == nil && st.Mode&0o700 != 0o700 {
			err = chmodHandle(fd, st.Mode&0o7777|0o700)
			closed = append(closed, func() { _ = chmodHandle(fd, st.Mode&0o7777); _ = unix.Close(fd) })
		} else {
			_ = unix.Close(fd)
		}
		if err != nil {
			return err
		}
	}
	return s.inParent(source, f)
}

// staged reports whether what was staged is at a name.
func (s *step) staged(dir int, name string) (bool, error) {
	st, err := look(dir, name)
	if gone(err) {
		return false, nil
	}
	return err == nil && st.Ino == s.Ino, err
}

// do does a step, unless it is done, and then looks at what it has replaced.
func (s *step) do(source int) error {
	return s.inParent(source, func(dir int, name, temp string) error {
		switch s.Deed {
		case place, exchange:
			done, err := s.staged(dir, name)
			if err != nil {
				return err
			}
			if !done {
				if ready, err := s.staged(dir, temp); err != nil || !ready {
					return errors.Join(errors.New("what was staged is not there any more"), err)
				}
				err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
				if errors.Is(err, unix.EEXIST) {
					if s.Deed == place && !s.Any {
						return errOther
					}
					err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE)
				} else if err == nil && s.Deed == exchange && !s.Any {
					return errOther // it was there when it was looked at
				}
			}
			if err != nil {
				return err
			}
		case remove:
			switch _, err := look(dir, temp); {
			case gone(err):
				err = unix.Renameat2(dir, name, dir, temp, unix.RENAME_NOREPLACE)
				if gone(err) {
					return nil // somebody else has removed it
				}
				if err != nil {
					return err
				}
			case err != nil:
				return err
			}
		case chmod:
			return s.chmod(dir, name, s.New)
		}
		return s.check(dir, temp)
	})
}

// check looks at what a step has replaced.
func (s *step) check(dir int, temp string) error {
	if s.Any || s.Deed == place {
		return nil
	}
	st, err := look(dir, temp)
	if gone(err) {
		return errOther
	}
	if err == nil && !s.Expect.Still(identityOf(&st)) {
		return errOther
	}
	return err
}

// chmod changes the permissions of a directory.
func (s *step) chmod(dir int, name string, mode uint32) error {
	fd, err := reach(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if gone(err) {
		return errOther
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return chmodHandle(fd, mode)
}

// chmodHandle changes the permissions of what a handle is of, which may be opened with O_PATH.
func chmodHandle(fd int, mode uint32) error { return unix.Chmod(handlePath(fd), mode) }

// undo takes a step back, if it was done. It reports false if somebody else has changed the path
// meanwhile, so that what was there before is still at the temporary name.
func (s *step) undo(source int) (whole bool, err error) {
	whole = true
	err = s.inOpened(source, func(dir int, name, temp string) error {
		switch s.Deed {
		case place, exchange:
			done, err := s.staged(dir, name)
			if err != nil {
				return err
			}
			_, err = look(dir, temp)
			replaced := err == nil
			if err != nil && !gone(err) {
				return err
			}
			if !done {
				ready, err := s.staged(dir, temp)
				whole = !replaced || ready
				return err
			}
			if replaced {
				return unix.Renameat2(dir, temp, dir, name, unix.RENAME_EXCHANGE)
			}
			return unix.Renameat2(dir, name, dir, temp, unix.RENAME_NOREPLACE)
		case remove:
			if _, err := look(dir, temp); gone(err) {
				return nil
			}
			err := unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
			if errors.Is(err, unix.EEXIST) {
				whole = false
				return nil
			}
			return err
		case chmod:
			st, err := look(dir, name)
			if err == nil && st.Mode&0o7777 == s.New {
				return s.chmod(dir, name, s.Old)
			}
			if gone(err) {
				return nil
			}
			return err
		}
		return nil
	})
	return whole, err
}

// keptSuffix ends the names of what is kept because somebody else has changed its path.
const keptSuffix = ".before-commit"

// keep gives what was there before a step a name beside its place that people see. It returns the
// path, which is still the temporary one if there is no other.
func (s *step) keep(source int) string {
	parent, _ := delta.Split(string(s.Path))
	kept := string(s.Temp)
	_ = s.inOpened(source, func(dir int, name, temp string) error {
		name = text.Prefix(name, 200)
		for n := 1; n < 100; n++ {
			to := name + keptSuffix
			if n > 1 {
				to += "-" + strconv.Itoa(n)
			}
			err := unix.Renameat2(dir, temp, dir, to, unix.RENAME_NOREPLACE)
			if err == nil {
				kept = delta.Join(parent, to)
			}
			if !errors.Is(err, unix.EEXIST) {
				return err
			}
		}
		return nil
	})
	return kept
}

// follow gives the steps whose directories were moved within the source since the commit began the
// paths that they have now, so that nothing stays behind there. What cannot be read is not searched.
func (j *journal) follow(source int) error {
	moved, dirs := map[uint64][]*step{}, map[string]uint64{}
	for _, s := range j.Steps {
		parent, _ := delta.Split(string(s.Path))
		is, known := dirs[parent]
		if !known {
			st, err := look(source, parent)
			if err != nil && !gone(err) && !errors.Is(err, unix.EACCES) {
				return fmt.Errorf("cannot look at %s: %w", text.QuoteName(parent), err)
			}
			if is = st.Ino; errors.Is(err, unix.EACCES) {
				is = s.Dir
			}
			dirs[parent] = is
		}
		if s.Dir != 0 && is != s.Dir {
			moved[s.Dir] = append(moved[s.Dir], s)
		}
	}
	if len(moved) == 0 {
		return nil
	}
	visit := func(rel string, st *unix.Stat_t) error {
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return nil
		}
		for _, s := range moved[st.Ino] {
			_, name := delta.Split(string(s.Path))
			_, temp := delta.Split(string(s.Temp))
			s.Path, s.Temp = []byte(delta.Join(rel, name)), []byte(delta.Join(rel, temp))
		}
		if delete(moved, st.Ino); len(moved) == 0 {
			return io.EOF
		}
		fd, err := reach(source, rel, unix.O_RDONLY|unix.O_DIRECTORY)
		if err != nil {
			return fs.SkipDir // closed, gone, or another file system
		}
		return unix.Close(fd)
	}
	var err error
	for range 3 { // something may vanish while it is looked at
		if err = walkTree(context.Background(), source, "", visit); !gone(err) {
			break
		}
	}
	var many *TooManyError
	if errors.Is(err, io.EOF) || errors.As(err, &many) || gone(err) {
		return nil
	}
	return err
}

// land does all steps. A step that meets something else than what was looked at ends it.
func (j *journal) land(source int) error {
	for _, s := range j.Steps {
		j.before("land " + string(s.Path))
		begun := s.begun
		s.begun = true
		err := s.do(source)
		if gone(err) {
			s.begun = begun // there was nothing to change
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, unix.EINVAL):
			return fmt.Errorf("cannot change %s: its file system cannot rename files as a commit needs it (RENAME_NOREPLACE, RENAME_EXCHANGE): %w", text.QuoteName(string(s.Path)), err)
		case !errors.Is(err, errOther) && !gone(err):
			return fmt.Errorf("cannot change %s: %w", text.QuoteName(string(s.Path)), err)
		}
		return &ConflictError{[]Conflict{{Path: string(s.Path), Why: errOther.Error()}}}
	}
	j.before("sync")
	if err := syncTree(source); err != nil {
		return fmt.Errorf("cannot write to disk: %w", err)
	}
	return j.confirm(source)
}

// confirm looks again at the trees that the steps have taken away, just before they are removed: others
// may have written there since the plan.
func (j *journal) confirm(source int) error {
	j.before("confirm")
	var met []Conflict
	for _, s := range j.Steps {
		same, err := s.confirm(source)
		if err != nil {
			return fmt.Errorf("cannot look at what was at %s: %w", text.QuoteName(string(s.Path)), err)
		}
		if !same {
			met = append(met, Conflict{Path: string(s.Path), Why: errOther.Error()})
		}
	}
	if len(met) > 0 {
		return &ConflictError{met}
	}
	return nil
}

// confirm reports whether the tree that a step has taken away is as the plan saw it.
func (s *step) confirm(source int) (same bool, err error) {
	if s.Tree == nil || s.Deed != exchange && s.Deed != remove {
		return true, nil
	}
	err = s.inOpened(source, func(dir int, _, temp string) error {
		if _, err := look(dir, temp); gone(err) {
			same = true // somebody else had removed it
			return nil
		}
		h := sha256.New()
		err := walkTree(context.Background(), dir, temp, func(rel string, st *unix.Stat_t) error {
			describe(h, rel[len(temp):], st)
			return nil
		})
		same = err == nil && bytes.Equal(h.Sum(nil), s.Tree)
		if gone(err) {
			return nil
		}
		return err
	})
	return same, err
}

// describe writes what shows a change of a file of a tree. A rename changes the top's ctime, and that of
// a file with other names changes with them.
func describe(w io.Writer, below string, st *unix.Stat_t) {
	fmt.Fprintf(w, "%q %d %o %d %d", below, st.Ino, st.Mode, st.Size, st.Mtim.Nano())
	if below != "" && (st.Nlink == 1 || st.Mode&unix.S_IFMT == unix.S_IFDIR) {
		fmt.Fprintf(w, " %d", st.Ctim.Nano())
	}
	fmt.Fprintln(w)
}

// problems are errors of several steps. The text names the first of them.
type problems struct {
	errs []error
	more int
}

func (p *problems) add(err error) {
	switch {
	case err == nil:
	case len(p.errs) < 5:
		p.errs = append(p.errs, err)
	default:
		p.more++
	}
}

func (p *problems) err() error {
	if p.more > 0 {
		return errors.Join(append(p.errs, fmt.Errorf("and %d more", p.more))...)
	}
	return errors.Join(p.errs...)
}

// undo takes all steps back that were begun, and removes the journal. A step that cannot be taken
// back does not keep the others from it; then the journal stays.
func (j *journal) undo(source int) error {
	var unwritten error
	if j.state != undoing { // the source is made whole even if that cannot be written
		unwritten = j.become(undoing)
	}
	var failed problems
	failed.add(j.follow(source))
	var done, changed []*step
	kept := map[string]string{}
	for _, s := range slices.Backward(j.Steps) {
		if !s.begun {
			done = append(done, s)
			continue
		}
		j.before("undo " + string(s.Path))
		switch whole, err := s.undo(source); {
		case gone(err): // its directory is
			kept[string(s.Path)] = ""
		case err != nil:
			failed.add(fmt.Errorf("cannot take back the change of %s: %w", text.QuoteName(string(s.Path)), err))
		case whole:
			done = append(done, s)
		default:
			changed = append(changed, s)
		}
	}
	if err := syncTree(source); err != nil { // what was there before stays until all is on disk
		failed.add(fmt.Errorf("cannot write to disk: %w", err))
		return errors.Join(&UnfinishedError{j.dir}, unwritten, failed.err())
	}
	for _, s := range changed {
		kept[string(s.Path)] = s.keep(source)
	}
	failed.add(j.discard(source, done))
	err := failed.err()
	if err == nil {
		if err = j.end(); err != nil {
			err = errors.Join(unwritten, err)
		}
	}
	if err != nil {
		err = errors.Join(&UnfinishedError{j.dir}, err)
	}
	if len(kept) > 0 {
		err = errors.Join(&KeptError{kept}, err)
	}
	return err
}

// finish removes what was replaced, and the journal.
func (j *journal) finish(source int) error {
	if err := j.become(landed); err != nil {
		return err
	}
	return j.clean(source)
}

// clean removes the temporary files, and then the journal.
func (j *journal) clean(source int) error {
	if err := errors.Join(j.follow(source), j.discard(source, j.Steps)); err != nil {
		return err
	}
	return j.end()
}
