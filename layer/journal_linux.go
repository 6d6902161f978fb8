package layer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
)

// state is how far a commit has come. It is the name of the journal's file, so that a change of
// it is one rename, which needs no space.
type state string

const (
	staging state = "commit.staging" // temporary files are made; nothing of the source has changed
	landing state = "commit.landing" // everything is staged, and lands
	undoing state = "commit.undoing" // what has landed is taken back
	landed  state = "commit.landed"  // all has landed; what it has replaced is removed
)

// deed is what a step does to a path.
type deed string

const (
	place    deed = "place"    // the temporary file comes where nothing was
	exchange deed = "exchange" // the temporary file and what was there change places
	remove   deed = "remove"   // what was there gets the temporary name
	chmod    deed = "chmod"    // a directory gets other permissions
)

// step is one path of the source that a commit changes.
type step struct {
	Path, Temp []byte // bytes, because names need not be UTF-8
	Deed       deed
	Dir        uint64   // inode of the directory that it is in; 0: unknown
	Ino        uint64   // of what was staged; 0: nothing was
	Expect     Identity // of what it replaces
	Tree       []byte   // hash of that, and of what is below it; nil: unknown
	Any        bool     // whatever it replaces
	Old, New   uint32   // permissions, for chmod

	begun bool // it may have been done
}

// stages reports whether a step needs something that is made before.
func (s *step) stages() bool { return s.Deed == place || s.Deed == exchange }

// journal is what a commit does, durable before it is done.
type journal struct {
	Source string // path
	Ino    uint64 // of the source
	Born   int64
	Since  int64 // when the commit began, in nanoseconds since 1970; 0: unknown
	Steps  []*step

	dir   string
	state state
	at    func(string) // for tests: called before each change of anything
}

func (j *journal) before(what string) {
	if j.at != nil {
		j.at(what)
	}
}

// UnfinishedError is the error of a commit that finds the journal of an earlier one, or that could
// neither be ended nor be taken back wholly.
type UnfinishedError struct{ Journal string }

// Error says what to do.
func (e *UnfinishedError) Error() string {
	return "a commit has not ended, and may have left temporary files: mend what hinders it, and open the layer again (its journal is in " + text.QuoteName(e.Journal) + ")"
}

// BusyError is the error of a commit or a recovery while another one uses the same journal.
type BusyError struct{ Journal string }

// Error names the journal.
func (e *BusyError) Error() string {
	return "another commit is at work, with its journal in " + text.QuoteName(e.Journal)
}

// lock keeps others from a directory for a journal, until what it returns is called. The kernel
// ends it when the process ends.
func lock(dir string) (unlock func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the directory of the journal: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &BusyError{dir}
		}
		return nil, fmt.Errorf("cannot lock the directory of the journal: %w", err)
	}
	return func() {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN) // closing is not enough while a program that starts has a copy
		_ = f.Close()
	}, nil
}

// find returns the state of the commit that a directory has the journal of, or "".
func find(dir string) (state, error) {
	for _, s := range []state{undoing, landed, landing, staging} {
		_, err := os.Lstat(filepath.Join(dir, string(s)))
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

// write writes the journal in a state, and removes its file of the state before.
func (j *journal) write(s state) error {
	body, err := json.Marshal(j)
	if err != nil {
		return err
	}
	j.before("write " + string(s))
	temp := filepath.Join(j.dir, "commit.new")
	err = os.WriteFile(temp, body, 0o600)
	if err == nil {
		err = syncPath(temp)
	}
	if err == nil {
		err = os.Rename(temp, filepath.Join(j.dir, string(s)))
	}
	if err != nil {
		_ = os.Remove(temp)
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	was := j.state
	j.state = s
	if err := syncPath(j.dir); err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	if was != "" && was != s {
		j.before("remove " + string(was))
		if err := os.Remove(filepath.Join(j.dir, string(was))); err != nil {
			return fmt.Errorf("cannot write the journal: %w", err)
		}
		return syncPath(j.dir)
	}
	return nil
}

// become changes the state.
func (j *journal) become(s state) error {
	j.before("become " + string(s))
	err := os.Rename(filepath.Join(j.dir, string(j.state)), filepath.Join(j.dir, string(s)))
	if err == nil {
		j.state = s
		err = syncPath(j.dir)
	}
	if err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// end removes the journal.
func (j *journal) end() error {
	j.before("end")
	for _, s := range []state{staging, j.state} { // write may have left the first
		if err := os.Remove(filepath.Join(j.dir, string(s))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the journal: %w", err)
		}
	}
	if err := syncPath(j.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the journal: %w", err)
	}
	return nil
}

func syncPath(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// syncfs is replaced in tests that do it hundreds of times.
var syncfs = unix.Syncfs

// syncTree waits until the file system of a directory is on disk.
func syncTree(dir int) error {
	fd, err := reach(dir, "", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return syncfs(fd)
}

// Recovered says what has become of a commit that did not end.
type Recovered string

// The source is as it was before the commit, or all of the commit is in it.
const (
	Nothing  Recovered = "nothing"  // there was no journal
	Undone   Recovered = "undone"   // the source is as it was before
	Finished Recovered = "finished" // the commit is in the source
)

// Recover finishes a commit that was interrupted, or takes it back where it cannot be finished,
// and removes its journal. After it the source is as it was before the commit, or as it is after
// it. An error leaves the journal, and Recover can be called again; a [KeptError] is about files
// of which both contents are kept, and the journal is gone.
func Recover(ctx context.Context, dir string) (Recovered, error) { return recoverAt(ctx, dir, nil) }

func recoverAt(ctx context.Context, dir string, at func(string)) (Recovered, error) {
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	s, err := find(dir)
	if err != nil {
		return "", fmt.Errorf("cannot read the journal: %w", err)
	}
	_ = os.Remove(filepath.Join(dir, "commit.new")) // half written: what it would have begun has not begun
	if s == "" {
		return Nothing, ctx.Err()
	}
	body, err := os.ReadFile(filepath.Join(dir, string(s)))
	if err != nil {
		return "", fmt.Errorf("cannot read the journal: %w", err)
	}
	j := &journal{}
	if err := json.Unmarshal(body, j); err != nil {
		return "", fmt.Errorf("cannot read the journal %s: %w", text.QuoteName(filepath.Join(dir, string(s))), err)
	}
	j.dir, j.state, j.at = dir, s, at
	if s == landing { // a crash between two files of the journal leaves both
		if err := os.Remove(filepath.Join(dir, string(staging))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("cannot read the journal: %w", err)
		}
	}
	source, err := unix.Open(j.Source, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("cannot open %s, into which a commit was interrupted: %w", text.QuoteName(j.Source), err)
	}
	defer func() { _ = unix.Close(source) }()
	if is, err := j.isSource(source); err != nil {
		return "", fmt.Errorf("cannot look at %s: %w", text.QuoteName(j.Source), err)
	} else if !is {
		return "", fmt.Errorf("%s is not the directory into which a commit was interrupted: bring that back to its place", text.QuoteName(j.Source))
	}
	return j.resume(source)
}

// isSource reports whether a directory is the source. The number of its device may have changed
// since.
func (j *journal) isSource(dir int) (bool, error) {
	st, err := look(dir, "")
	if err != nil {
		return false, err
	}
	when, err := born(dir)
	return st.Ino == j.Ino && when == j.Born, err
}

// resume goes on from the state of the journal.
func (j *journal) resume(source int) (Recovered, error) {
	for _, s := range j.Steps {
		s.begun = true
	}
	switch j.state {
	case staging:
		return Undone, j.clean(source)
	case landing:
		if err := j.land(source); err != nil {
			return Undone, j.undo(source) // it cannot be finished
		}
		return Finished, j.finish(source)
	case undoing:
		return Undone, j.undo(source)
	case landed:
		return Finished, j.clean(source)
	}
	return "", errors.New("unknown state " + strconv.Quote(string(j.state)))
}
