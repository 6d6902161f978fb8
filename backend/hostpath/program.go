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

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// Program refuses a program of the host, an engine or a wrapper, that is about to
// be executed outside of every wall: one that commands of a sandbox could have
// written, by the list in a directory of state ("": the usual one), one that they can
// write through these mounts, or one that another user of this host could. name is how it
// was asked for, path where it was found, which must be absolute. The error is a
// *backend.StartError of this stage. Of a script the interpreter counts as well.
func Program(stage, state, name, path string, mounts []Mount) error {
	err := judgeProgram(state, path, mounts, 0)
	if err == nil {
		return nil
	}
	refused := &backend.StartError{Stage: stage, Op: "execute", Object: path, Cause: Reason(err), Hint: "name another program"}
	if !strings.Contains(name, "/") {
		refused.Hint = "take " + text.Escape(filepath.Dir(path)) + " out of PATH, or name another program by its path"
	}
	if e := (*policy.FieldError)(nil); errors.As(err, &e) {
		refused.Cause = e.Reason
	}
	return refused
}

// SearchPath returns a PATH for programs of the host that look for further ones there:
// without relative directories, and without those in which [Program] trusts none. Where
// nothing is left, it is policy.SearchPath.
func SearchPath(state, list string, mounts []Mount) string {
	dirs := slices.DeleteFunc(filepath.SplitList(list), func(dir string) bool {
		return !filepath.IsAbs(dir) || judgeProgram(state, filepath.Join(dir, "program"), mounts, 0) != nil
	})
	return cmp.Or(strings.Join(dirs, string(filepath.ListSeparator)), policy.SearchPath)
}

func judgeProgram(state, path string, mounts []Mount, scripts int) error {
	own := backend.OwnFile{Path: path, What: "the program"}
	way, err := NewSeen(nil).locateOwn(own)
	if err != nil {
		return err
	}
	list, err := readLists(state)
	if errors.Is(err, fs.ErrNotExist) {
		list, err = readLent() // no sandbox of this user's was started
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	more := writable(mounts)
	for _, l := range way.Links {
		if d, ok := list.above(l.Dirs); ok {
			return way.refused(l, "and commands of a sandbox could have made it: "+d.Path+" was writable for them")
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
			return errors.New("of its interpreter, " + strconv.Quote(word) + ", nobody can tell who could have written it")
		}
		if err := judgeProgram(state, word, mounts, scripts+1); err != nil {
			return err
		}
	}
	return nil
}

// maxScripts is how many scripts the kernel lets be each other's interpreters, and more.
const maxScripts = 8

// interpreterOf reads the "#!" line of a script: the interpreter, and its operand where
// that is an absolute path. It returns nil for other files. Judge the file first.
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
