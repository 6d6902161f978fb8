package hostpath

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// Program refuses a program of the host, an engine or a wrapper, that is about to be
// executed outside of any wall: one that commands of a sandbox could have written, by the
// list in a state directory ("": the usual one), one that they can write through these
// mounts, or one that another user of this host could have written. A script's interpreter
// is checked as well. name is how the program was asked for, path where it was found,
// which must be absolute. The error is a *backend.StartError of this stage.
func Program(stage, state, name, path string, mounts []Mount) error {
	err := judgeProgram(state, path, mounts, 0)
	if err == nil {
		return nil
	}
	refused := &backend.StartError{Stage: stage, Op: "execute", Object: path, Cause: Reason(err), Hint: "name another program"}
	if !strings.Contains(name, "/") {
		refused.Hint = "take " + policy.ShellWord(filepath.Dir(path)) + " out of PATH, or name another program by its path"
	}
	if e := (*policy.FieldError)(nil); errors.As(err, &e) {
		refused.Cause = e.Reason
	}
	return refused
}

// SearchPath returns a PATH for programs of the host that look for other programs:
// without relative directories, and without those in which [Program] would refuse every
// program. If nothing is left, it is policy.SearchPath.
func SearchPath(state, list string, mounts []Mount) string {
	dirs := slices.DeleteFunc(filepath.SplitList(list), func(dir string) bool {
		return !filepath.IsAbs(dir) || judgeProgram(state, filepath.Join(dir, "program"), mounts, 0) != nil
	})
	return cmp.Or(strings.Join(dirs, string(filepath.ListSeparator)), policy.SearchPath)
}

// ShellDirs returns the directories in which the host's shells look for programs: those of PATH. An
// entry that is relative leads from where people work, the workspace.
func ShellDirs(workspace string) []string {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for i, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dirs[i] = filepath.Join(workspace, dir)
		}
	}
	return dirs
}

// judgeProgram returns why a program must not be executed, or nil. scripts counts the
// scripts of which it is the interpreter.
func judgeProgram(state, path string, mounts []Mount, scripts int) error {
	own := backend.OwnFile{Path: path, What: "the program"}
	way, err := NewSeen(nil).locateOwn(own)
	if err != nil {
		return err
	}
	list, err := readLists(state)
	if errors.Is(err, fs.ErrNotExist) {
		list, err = readLent() // this user has never started a sandbox
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	more := writable(mounts)
	for _, l := range way.Links {
		if d, ok := list.above(l.Dirs); ok {
			return way.refused(l, "and commands of a sandbox could have made it: "+WasWritable(d.Path))
		}
		if err := way.changeable(l, more); err != nil {
			return err
		}
	}
	for _, m := range mounts {
		if m.Writable && (way.Exists && way.Same(m.ID) || slices.ContainsFunc(way.Dirs, func(d Dir) bool { return d.Same(m.ID) })) {
			return Refuse(own.What, path, "commands of this sandbox can write to "+m.Source, "")
		}
	}
	if err := way.placed(own, list); err != nil {
		return err
	}
	if err := way.guarded(own); err != nil {
		return err
	}
	if err := way.ofStranger(own); err != nil {
		return err
	}
	for _, word := range interpreterOf(way.Path) {
		if scripts == maxScripts || !filepath.IsAbs(word) {
			return errors.New("cannot tell who could have written its interpreter, " + strconv.Quote(word))
		}
		if err := judgeProgram(state, word, mounts, scripts+1); err != nil {
			return err
		}
	}
	return nil
}

// maxScripts is how many scripts may be each other's interpreters. The kernel allows fewer.
const maxScripts = 8

// interpreterOf reads the "#!" line of a script. It returns the interpreter, and its operand
// if that is an absolute path, or nil for other files. The file must be checked before.
func interpreterOf(file string) []string {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil
	}
	defer f.Close()
	head := make([]byte, 256) // as much as the kernel reads
	n, _ := io.ReadFull(f, head)
	line, ok := strings.CutPrefix(string(head[:n]), "#!")
	line, _, _ = strings.Cut(line, "\n")
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	switch {
	case !ok || len(words) == 0:
		return nil
	case len(words) > 1 && filepath.IsAbs(words[1]):
		return words[:2]
	}
	return words[:1]
}

// SearchDir returns the directory to which an entry of the caller's PATH leads, without
// symbolic links. It refuses one in the workspace, and one into which commands of this
// request's sandbox, or of any that was ever started, could put programs, or to which
// they could make a link on the way.
func SearchDir(req backend.Request, dir string) (string, error) {
	way, _, _, err := searchDir(req, dir)
	if err != nil {
		return "", err
	}
	return way.Path, nil
}

// searchDir does what SearchDir does. It also returns by what it judged.
func searchDir(req backend.Request, dir string) (way *Way, list *Written, mounts []Mount, err error) {
	if way, err = Follow(dir); err != nil {
		return nil, nil, nil, errors.New(Reason(err))
	}
	if list, mounts, err = writtenNow(req); err != nil {
		return nil, nil, nil, err
	}
	switch {
	case !way.Exists:
		return nil, nil, nil, errors.New("it does not exist")
	case !way.IsDir():
		return nil, nil, nil, errors.New("it is not a directory")
	}
	ways, err := otherWays(seenBy(req).host(), way)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, w := range ways {
		if err := w.searchable(list, mounts); err != nil {
			return nil, nil, nil, err
		}
	}
	if err := list.Judge(way, writable(mounts)); err != nil {
		return nil, nil, nil, err
	}
	return way, list, mounts, nil
}

// writtenNow returns what commands could ever write, which may be nothing yet, and the mounts
// of a request.
func writtenNow(req backend.Request) (*Written, []Mount, error) {
	mounts, err := Mounts(req, policy.WorkspacePath)
	if err != nil {
		return nil, nil, err
	}
	list := seenBy(req).list
	if list == nil { // this may be the first start, or the list cannot be trusted
		if list, err = readLists(req.StateDir); errors.Is(err, fs.ErrNotExist) {
			return &Written{}, mounts, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("cannot tell what sandboxes could write: %w", err)
		}
	}
	return list, mounts, nil
}

// ToolDir returns the directory of a toolchain to which a path below the caller's home leads,
// without symbolic links. It refuses what [SearchDir] refuses, a directory outside of home,
// one of another user's or that every user may change, and one in which commands could
// ever change anything, at whatever depth, or near the top of which a directory lies that they
// could change before it was moved there. home is free of links.
func ToolDir(req backend.Request, home, dir string) (string, error) {
	way, list, mounts, err := searchDir(req, dir)
	if err == nil {
		err = way.ownTool(home)
	}
	if err != nil {
		return "", err
	}
	for _, m := range mounts {
		if m.Writable && Under(m.Source, way.Path) {
			return "", errors.New("commands can change what is in it: " + m.Source + " is writable")
		}
	}
	if at := cmp.Or(list.below(way.Path), list.moved(way.Path)); at != "" {
		return "", errors.New("commands of a sandbox could have changed what is in it: " + WasWritable(at))
	}
	return way.Path, nil
}

// ToolFile is like [ToolDir], for a single file.
func ToolFile(req backend.Request, home, file string) (string, error) {
	way, err := Follow(file)
	if err == nil {
		err = way.absent()
	}
	if err != nil {
		return "", errors.New(Reason(err))
	}
	if way.Mode&unix.S_IFMT != unix.S_IFREG {
		return "", errors.New("it is not a regular file")
	}
	list, mounts, err := writtenNow(req)
	if err != nil {
		return "", err
	}
	at := append(way.Dirs[:len(way.Dirs):len(way.Dirs)], Dir{Path: way.Path, Identity: way.Identity})
	for _, m := range mounts {
		if m.Writable && slices.ContainsFunc(at, func(d Dir) bool { return d.Same(m.ID) }) {
			return "", errors.New("commands can change it: it lies in " + m.Source + ", which is writable")
		}
	}
	if d, ok := list.above(at); ok {
		return "", errors.New("commands of a sandbox could have changed it: " + WasWritable(d.Path))
	}
	if err := list.Judge(way, writable(mounts)); err != nil {
		return "", err
	}
	if err := way.ownTool(home); err != nil {
		return "", err
	}
	return way.Path, nil
}

// ownTool refuses a part of a toolchain that is not below the home, or that another user owns
// or could change.
func (w *Way) ownTool(home string) error {
	if rel, ok := Within(w.Path, home); !ok || rel == "" {
		return errors.New("it leads to " + w.Path + ", which is not below your home")
	}
	if w.Mode&0o002 != 0 {
		return fmt.Errorf("every user of this host may write to it (mode %04o)", w.Mode&0o7777)
	}
	own := backend.OwnFile{Path: w.Path, What: "the toolchain", Dir: true}
	err := w.guarded(own)
	if err == nil {
		err = w.ofStranger(own)
	}
	if e := (*policy.FieldError)(nil); errors.As(err, &e) {
		return errors.New(e.Reason)
	}
	return err
}

// otherWays returns the ways to a directory and to the programs that are mounted in it, and
// the other ways to any of these, over directories that are mounted a second time: the kernel
// does not report the parents of the directory in such a mount.
func otherWays(all map[string]mounted, way *Way) ([]*Way, error) {
	var paths []string
	for at := range all {
		if path.Dir(at) == way.Path && at != way.Path {
			paths = append(paths, at)
		}
	}
	slices.Sort(paths)
	ways := []*Way{way}
	follow := func(paths []string) error {
		for _, at := range paths {
			w, err := Follow(at)
			if err != nil {
				return fmt.Errorf("cannot look at what is mounted there: %s: %s", at, Reason(err))
			}
			if w.Exists && (!w.IsDir() || path.Dir(at) != way.Path) { // not a directory beside the programs
				ways = append(ways, w)
			}
		}
		return nil
	}
	err := follow(paths)
	for _, w := range slices.Clone(ways) {
		err = errors.Join(err, follow(otherPaths(all, w).itself))
	}
	return ways, err
}

// searchable refuses a directory of programs, or a program, that commands can change
// through these mounts, or ever could by a list.
func (w *Way) searchable(list *Written, mounts []Mount) error {
	dirs := append(w.Dirs[:len(w.Dirs):len(w.Dirs)], Dir{Path: w.Path, Identity: w.Identity})
	for i, m := range mounts {
		below := slices.ContainsFunc(dirs, func(d Dir) bool { return d.Same(m.ID) })
		switch {
		case m.Writable && below:
			return errors.New("commands can change it: it lies in " + m.Source + ", which is writable")
		case m.Writable && path.Dir(m.Source) == w.Path:
			return errors.New("commands can change what is in it: " + m.Source + " is writable")
		case i == 0 && below:
			return errors.New("it lies in the workspace")
		}
	}
	at, listed := list.above(dirs)
	if !listed {
		for i := range list.entries { // single files that were writable
			if listed = path.Dir(list.entries[i].path) == w.Path; listed {
				at.Path = list.entries[i].path
				break
			}
		}
	}
	if listed {
		return errors.New("commands of a sandbox could have changed what is in it: " + WasWritable(at.Path))
	}
	return nil
}
