//go:build linux

package linux

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

// userMount is a host path that the user named: the workspace or a mount.
type userMount struct {
	field    string // of the spec, for messages
	source   string // absolute, free of symbolic links
	target   string
	writable bool // through it, the host's files can be changed
	copied   bool // commands get a copy instead
	dir      bool
	uid, gid uint32 // its owner
}

// userMounts checks what the spec names against the file system, the
// workspace first.
func userMounts(req backend.Request) ([]userMount, error) {
	spec := req.Spec
	ws := userMount{field: "workspace.source", target: workspaceDir, writable: spec.Workspace.Access != "ro"}
	if err := ws.locate(spec.Workspace.Source); err != nil {
		return nil, err
	}
	if !ws.dir {
		return nil, badSource(ws.field, spec.Workspace.Source, "it is not a directory", "name a directory with --workspace")
	}
	if spec.Workspace.Mode == policy.ModeCopy {
		ws.copied, ws.writable = true, false
	}
	mounts := []userMount{ws}
	for _, m := range spec.Mounts {
		um := userMount{field: "mounts", target: m.Target, writable: m.Mode == "rw"}
		if err := um.locate(m.Source); err != nil {
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
func noLinks(spec policy.Spec, mounts []userMount) error {
	check := func(field, written, resolved string) error {
		if resolved == filepath.Clean(written) {
			return nil
		}
		return badSource(field, written, "there is a symbolic link in it, and none is followed here", "name the path that the link leads to")
	}
	errs := []error{check(mounts[0].field, spec.Workspace.Source, mounts[0].source)}
	for i, m := range spec.Mounts {
		errs = append(errs, check("mounts["+strconv.Itoa(i)+"].source", m.Source, mounts[1+i].source))
	}
	if spec.RootFS != policy.RootHost {
		resolved, err := filepath.EvalSymlinks(spec.RootFS)
		if err != nil {
			return badSource("rootfs", spec.RootFS, reason(err), "")
		}
		errs = append(errs, check("rootfs", spec.RootFS, resolved))
	}
	return errors.Join(errs...)
}

// kernelDirs are the trees through which the kernel itself is spoken to.
// Package policy refuses them where they are written; a link may lead there too.
var kernelDirs = []string{"/proc", "/sys", "/dev"}

// locate resolves the source and reads its owner and type.
func (m *userMount) locate(source string) error {
	resolved, err := filepath.EvalSymlinks(source)
	if err != nil {
		return badSource(m.field, source, reason(err), "")
	}
	if resolved == "/" {
		return badSource(m.field, source, "it is the root of the host's file system", "name the directory that commands are to work in")
	}
	for _, dir := range kernelDirs {
		if _, ok := within(resolved, dir); ok {
			return badSource(m.field, source, "it leads to "+resolved+", and "+dir+" belongs to the kernel", "a sandbox has a "+dir+" of its own")
		}
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return badSource(m.field, source, reason(err), "")
	}
	if mode := info.Mode(); !mode.IsDir() && !mode.IsRegular() && mode&fs.ModeSocket == 0 {
		return badSource(m.field, source, "it is neither a file nor a directory", "")
	}
	if err := readable(resolved, info); err != nil {
		return badSource(m.field, source, reason(err), "the caller must be able to read it")
	}
	st := info.Sys().(*syscall.Stat_t)
	m.source, m.dir, m.uid, m.gid = resolved, info.IsDir(), st.Uid, st.Gid
	return nil
}

func readable(path string, info fs.FileInfo) error {
	mask := uint32(4) // R_OK
	if info.IsDir() {
		mask |= 1 // X_OK
	}
	return syscall.Access(path, mask)
}

func badSource(field, value, why, hint string) error {
	return &policy.FieldError{Field: field, Value: value, Reason: why, Hint: hint}
}

// reason is an error without the path that the message names already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}

// within reports whether path is dir or lies below it, and where. Both are
// absolute and clean.
func within(path, dir string) (rel string, ok bool) {
	if path == dir {
		return "", true
	}
	return strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
