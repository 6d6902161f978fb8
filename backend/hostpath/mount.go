package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/backend"
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
}

// Mounts checks what the spec of a request names against the file system: the
// workspace first, at the path inside that is given, then the mounts.
func Mounts(req backend.Request, workspace string) ([]Mount, error) {
	spec := req.Spec
	ws := Mount{Field: "workspace.source", Target: workspace, Writable: spec.Workspace.Access != "ro"}
	if err := ws.Locate(spec.Workspace.Source); err != nil {
		return nil, err
	}
	if !ws.Dir {
		return nil, Refuse(ws.Field, spec.Workspace.Source, "it is not a directory", "name a directory with --workspace")
	}
	if spec.Workspace.Mode == policy.ModeCopy {
		ws.Copied, ws.Writable = true, false
	}
	mounts := []Mount{ws}
	for _, m := range spec.Mounts {
		um := Mount{Field: "mounts", Target: m.Target, Writable: m.Mode == "rw"}
		if err := um.Locate(m.Source); err != nil {
			return nil, err
		}
		mounts = append(mounts, um)
	}
	if req.NoLinks {
		return mounts, noLinks(spec, mounts)
	}
	return mounts, nil
}

// noLinks refuses sources that are named through symbolic links. What is found
// here to be free of them is opened without following any, so it stays that way.
func noLinks(spec policy.Spec, mounts []Mount) error {
	check := func(field, written, resolved string) error {
		if resolved == filepath.Clean(written) {
			return nil
		}
		return Refuse(field, written, "there is a symbolic link in it, and none is followed here", "name the path that the link leads to")
	}
	errs := []error{check(mounts[0].Field, spec.Workspace.Source, mounts[0].Source)}
	for i, m := range spec.Mounts {
		errs = append(errs, check("mounts["+strconv.Itoa(i)+"].source", m.Source, mounts[1+i].Source))
	}
	if spec.RootFS != policy.RootHost && spec.RootFS != "" {
		resolved, err := filepath.EvalSymlinks(spec.RootFS)
		if err != nil {
			return Refuse("rootfs", spec.RootFS, Reason(err), "")
		}
		errs = append(errs, check("rootfs", spec.RootFS, resolved))
	}
	return errors.Join(errs...)
}

// kernelDirs are the trees through which the kernel itself is spoken to.
// Package policy refuses them where they are written; a link may lead there too.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// Locate resolves the source and reads its owner and type.
func (m *Mount) Locate(source string) error {
	resolved, err := filepath.EvalSymlinks(source)
	if err != nil {
		return Refuse(m.Field, source, Reason(err), "")
	}
	if resolved == "/" {
		return Refuse(m.Field, source, "it is the root of the host's file system", "name the directory that commands are to work in")
	}
	for _, dir := range kernelDirs {
		if _, ok := Within(resolved, dir); ok {
			return Refuse(m.Field, source, "it leads to "+resolved+", and "+dir+" belongs to the kernel", "a sandbox has a "+dir+" of its own")
		}
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return Refuse(m.Field, source, Reason(err), "")
	}
	if mode := info.Mode(); !mode.IsDir() && !mode.IsRegular() && mode&fs.ModeSocket == 0 {
		return Refuse(m.Field, source, "it is neither a file nor a directory", "")
	}
	if err := readable(resolved, info); err != nil {
		return Refuse(m.Field, source, Reason(err), "the caller must be able to read it")
	}
	st := info.Sys().(*syscall.Stat_t)
	m.Source, m.Dir, m.UID, m.GID = resolved, info.IsDir(), st.Uid, st.Gid
	return nil
}

func readable(path string, info fs.FileInfo) error {
	mask := uint32(4) // R_OK
	if info.IsDir() {
		mask |= 1 // X_OK
	}
	return syscall.Access(path, mask)
}

// Refuse is the error for a field of a spec that cannot be used.
func Refuse(field, value, why, hint string) error {
	return &policy.FieldError{Field: field, Value: value, Reason: why, Hint: hint}
}

// Reason is an error without the path that the message names already.
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

// Real is the path free of symbolic links, or "" where it does not exist.
func Real(p string) string {
	if p == "" {
		return ""
	}
	resolved, err := filepath.EvalSymlinks(p)
	if err != nil {
		return ""
	}
	return resolved
}

// Future is the path free of symbolic links as it will be once it exists.
func Future(p string) string {
	if resolved := Real(p); resolved != "" || p == "" || p == "/" {
		return resolved
	}
	return filepath.Join(Future(filepath.Dir(p)), filepath.Base(p))
}
