package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath/internal/dirfd"
	"github.com/paddock-dev/paddock/policy"
)

// Mount is a host path that a spec names: the workspace or a mount.
type Mount struct {
	Field    string // of the spec, for messages
	Source   string // absolute, free of symbolic links
	Target   string // absolute, inside
	Writable bool   // through it, the host's files can be changed
	Copied   bool   // commands get a copy instead
	Dir      bool
	UID, GID uint32 // its owner
	ID       dirfd.Identity
	Index    int   // among the spec's mounts
	dirs     []Dir // in which it lies, from "/" on
}

// Mounts checks what the spec of a request names against the file system: the
// workspace first, at the path inside that is given, then the mounts.
//
// A symbolic link is followed only where no command of a sandbox can have made
// it: see [Written.Judge]. What is found is opened later without following any,
// and compared with ID. In one start all of it is looked at once, see [Seen].
func Mounts(req backend.Request, workspace string) ([]Mount, error) {
	s := seenBy(req)
	if s.mounts == nil {
		mounts, err := s.look(req)
		if err != nil {
			return mounts, err
		}
		s.mounts = mounts
	}
	mounts := slices.Clone(s.mounts)
	mounts[0].Target = workspace
	return mounts, nil
}

// look is Mounts for a request of which nothing was seen yet, without the
// workspace's path inside.
func (s *Seen) look(req backend.Request) ([]Mount, error) {
	spec := req.Spec
	ws := Mount{Field: "workspace.source", Writable: spec.Workspace.Access != "ro"}
	way, err := ws.locate(spec.Workspace.Source)
	if err != nil {
		return nil, err
	}
	ways := []*Way{way}
	if !ws.Dir {
		return nil, Refuse(ws.Field, spec.Workspace.Source, "it is not a directory", "name a directory with `workspace.source`")
	}
	if spec.Workspace.Mode == policy.ModeCopy {
		ws.Copied, ws.Writable = true, false
	}
	mounts, written, fields := []Mount{ws}, []string{spec.Workspace.Source}, []string{ws.Field}
	for i, m := range spec.Mounts {
		um := Mount{Field: "mounts", Target: m.Target, Writable: m.Mode == "rw", Index: i}
		way, err := um.locate(m.Source)
		if err != nil {
			return nil, err
		}
		mounts, ways, written, fields = append(mounts, um), append(ways, way), append(written, m.Source), append(fields, um.named())
	}
	if spec.RootFS != policy.RootHost && spec.RootFS != "" {
		way, err := Follow(spec.RootFS)
		if err == nil {
			err = way.absent()
		}
		if err != nil {
			return nil, Refuse("rootfs", spec.RootFS, Reason(err), "")
		}
		ways, written, fields = append(ways, way), append(written, spec.RootFS), append(fields, "rootfs")
	}
	if err := s.judge(req, mounts, ways, written, fields); err != nil {
		return mounts, err
	}
	return mounts, noKernelBelow(mounts, s.host())
}

// judge refuses what is named through symbolic links that must not be followed.
func (s *Seen) judge(req backend.Request, mounts []Mount, ways []*Way, written, fields []string) error {
	if !slices.ContainsFunc(ways, func(w *Way) bool { return len(w.Links) > 0 }) {
		return nil
	}
	if req.NoLinks {
		var errs []error
		for i, way := range ways {
			if len(way.Links) > 0 {
				errs = append(errs, Refuse(fields[i], written[i], "there is a symbolic link in it, and none is followed here", "name the path that the link leads to"))
			}
		}
		return errors.Join(errs...)
	}
	more := writable(mounts)
	var errs []error
	for i, way := range ways {
		if err := s.list.Judge(way, more); err != nil {
			errs = append(errs, Refuse(fields[i], written[i], err.Error(), Hint(err)))
		}
	}
	return errors.Join(errs...)
}

// writable returns the directories that commands can change through these mounts.
func writable(mounts []Mount) []Dir {
	var dirs []Dir
	for _, m := range mounts {
		if m.Writable && m.Dir {
			dirs = append(dirs, Dir{Path: m.Source, Identity: m.ID})
		}
	}
	return dirs
}

// kernelDirs are the trees through which the kernel itself is spoken to.
// Package policy refuses them where they are written; a link may lead there too.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// Locate resolves the source and reads its owner and type. It does not judge
// the links in it.
func (m *Mount) Locate(source string) error {
	_, err := m.locate(source)
	return err
}

func (m *Mount) locate(source string) (*Way, error) {
	way, err := Follow(source)
	if err == nil {
		err = way.absent()
	}
	if err != nil {
		return nil, Refuse(m.named(), source, Reason(err), "")
	}
	if way.Path == "/" {
		return nil, Refuse(m.named(), source, "it is the root of the host's file system", "name the directory that commands are to work in")
	}
	for _, dir := range kernelDirs {
		if _, ok := Within(way.Path, dir); ok {
			return nil, Refuse(m.named(), source, "it leads to "+way.Path+", and "+dir+" belongs to the kernel", "a sandbox has a "+dir+" of its own")
		}
	}
	kind := way.Mode & unix.S_IFMT
	if kind != unix.S_IFDIR && kind != unix.S_IFREG && kind != unix.S_IFSOCK {
		return nil, Refuse(m.named(), source, "it is neither a file nor a directory", "")
	}
	m.Source, m.Dir, m.UID, m.GID, m.ID = way.Path, kind == unix.S_IFDIR, way.UID, way.GID, way.Identity
	m.dirs = way.Dirs
	if err := readable(m.Source, m.Dir); err != nil {
		hint := "the caller must be able to read it"
		if errors.Is(err, unix.EACCES) && int(way.UID) == os.Geteuid() {
			hint = "look at it, and give it back: chmod u+rwx " + policy.ShellWord(m.Source)
		}
		return nil, Refuse(m.named(), source, Reason(err), hint)
	}
	return way, nil
}

func readable(path string, dir bool) error {
	mask := uint32(unix.R_OK)
	if dir {
		mask |= unix.X_OK
	}
	return unix.Access(path, mask)
}

// Refuse returns the error for a field of a spec that cannot be used.
func Refuse(field, value, why, hint string) error {
	return &policy.FieldError{Field: field, Value: value, Reason: Printable(why), Hint: Printable(hint)}
}

// Printable returns a text for a person, in which what cannot be seen is escaped:
// commands may have chosen the names in it.
func Printable(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !strconv.IsPrint(r):
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Reason returns an error without the path that the message names already.
func Reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// Within reports whether path is dir or lies below it, and where. Both are
// absolute and clean.
func Within(path, dir string) (rel string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
