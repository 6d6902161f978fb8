package layerstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/removal"
	"github.com/paddock-dev/paddock/layer"
)

// New describes a layer to make.
type New struct {
	ID     string
	Source string // free of symbolic links
	Place  string // a directory for layers, free of symbolic links; empty: the state directory
	Root   bool   // root will mount it
	Ends   bool
	// Command is what will run, for people.
	Command []string
}

// Make makes an empty layer and locks it. The record is on the disk before anything else is made.
// A place that cannot carry a layer is an error of the field workspace.layers.
func (s Store) Make(ctx context.Context, n New) (*Held, error) {
	if !isID(n.ID) {
		return nil, fmt.Errorf("cannot make a layer: %q is not the id of a sandbox", n.ID)
	}
	source, err := unix.Openat2(unix.AT_FDCWD, n.Source, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, hostpath.Refuse("workspace.source", n.Source, err.Error(), "")
	}
	defer func() { _ = unix.Close(source) }()
	h := &Held{dir: filepath.Join(s.dir, n.ID)}
	h.Record = Record{Version: recordVersion, ID: n.ID, Source: n.Source, Marks: layer.UserMarks, Layers: []string{"0"}, Place: h.dir, Ends: n.Ends, Command: n.Command}
	if n.Root {
		h.Marks = layer.TrustedMarks
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, place(s.dir, err)
	}
	if err := private(s.dir); err != nil {
		return nil, place(s.dir, err)
	}
	if n.Place != "" {
		if err := private(n.Place); err != nil {
			return nil, hostpath.Refuse("workspace.layers", n.Place, hostpath.Reason(err), "name a directory of your own, which nobody else can write to")
		}
		if err := s.addPlace(n.Place); err != nil {
			return nil, place(s.dir, err)
		}
		h.Place = filepath.Join(n.Place, placePrefix+n.ID)
	}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		return nil, place(h.dir, err)
	}
	err = h.make(source)
	if err != nil {
		if h.lock != nil {
			err = errors.Join(err, h.Remove(context.WithoutCancel(ctx)))
		} else {
			_ = os.RemoveAll(h.dir)
		}
		return nil, err
	}
	return h, nil
}

// make makes what a layer has, in a directory that is new.
func (h *Held) make(source int) error {
	var err error
	for range 100 { // a sweep may look at it for an instant
		if h.lock, err = takeLock(h.dir, os.O_CREATE); !errors.Is(err, ErrInUse) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		return place(h.dir, err)
	}
	if err := h.identify(source); err != nil {
		return hostpath.Refuse("workspace.source", h.Source, err.Error(), "")
	}
	if h.Began, err = layer.Now(); err != nil {
		return err
	}
	text, err := json.Marshal(h.Record)
	if err == nil {
		err = replace(filepath.Join(h.dir, recordName), text)
	}
	if err == nil {
		err = syncDir(filepath.Dir(h.dir))
	}
	if err == nil {
		err = os.Mkdir(h.Journal(), 0o700)
	}
	if err == nil && h.Place != h.dir {
		if err := os.Mkdir(h.Place, 0o700); err != nil {
			return hostpath.Refuse("workspace.layers", filepath.Dir(h.Place), "no layer can be made in it: "+hostpath.Reason(err), "name a directory of your own on a file system for files")
		}
	}
	if err == nil {
		err = os.Mkdir(h.top(), 0o700)
	}
	if err != nil {
		return place(h.dir, err)
	}
	if err := try(h.top(), h.Marks); err != nil {
		return err
	}
	// Commands see the upper directory's attributes as the workspace's.
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return hostpath.Refuse("workspace.source", h.Source, err.Error(), "")
	}
	for name, mode := range map[string]uint32{"upper": st.Mode & 0o1777, "work": 0o700} {
		at := filepath.Join(h.top(), name)
		err := os.Mkdir(at, 0o700)
		if err == nil && h.Marks == layer.TrustedMarks {
			err = os.Chown(at, int(st.Uid), int(st.Gid))
		}
		if err == nil {
			err = unix.Chmod(at, mode)
		}
		if err != nil {
			return place(at, err)
		}
	}
	return nil
}

// place returns the error of a layer's directory.
func place(dir string, err error) error {
	hint := "keep layers elsewhere: `workspace.layers` DIR"
	if hostpath.Full(err) {
		hint = "make room there, or " + hint
	}
	return hostpath.Refuse("the layer's directory", dir, hostpath.Reason(err), hint)
}

// try does in a directory what an overlay does in its upper one: a file system that lacks one of
// these is mounted, too, and then some changes fail, or nothing can be changed.
func try(dir string, marks layer.Marks) error {
	refuse := func(lacks string, err error) error {
		return hostpath.Refuse("workspace.layers", filepath.Dir(dir), "its file system cannot carry a layer: "+lacks+": "+hostpath.Reason(err),
			"name a directory on ext4, xfs, btrfs or tmpfs (from Linux 6.6 on)")
	}
	at := filepath.Join(dir, "try")
	if err := os.Mkdir(at, 0o700); err != nil {
		return place(at, err)
	}
	defer os.RemoveAll(at)
	fd, err := unix.Open(at, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return place(at, err)
	}
	defer func() { _ = unix.Close(fd) }()
	attr := "trusted.overlay.try"
	if marks == layer.UserMarks {
		attr = "user.overlay.try"
	}
	if err := unix.Fsetxattr(fd, attr, []byte("y"), 0); err != nil {
		return refuse("it has no attributes of the kind "+attr, err)
	}
	file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return place(at, err)
	}
	_ = unix.Close(file)
	if err := unix.Renameat2(fd, "file", fd, "renamed", unix.RENAME_WHITEOUT); err != nil {
		return refuse("it cannot leave a mark where a file was renamed", err)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(fd, "file", &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return refuse("it left no mark where a file was renamed", errors.Join(err, unix.EIO))
	}
	if err := unix.Mkdirat(fd, "other", 0o700); err != nil {
		return place(at, err)
	}
	if err := unix.Renameat2(fd, "other", fd, "renamed", unix.RENAME_EXCHANGE); err != nil {
		return refuse("it cannot exchange two names", err)
	}
	return nil
}

// Remove removes a layer with all that it has, and ends the lock. From its first step on nobody
// finds the layer any more, and one that is interrupted is gone on with by a sweep.
func (h *Held) Remove(ctx context.Context) error {
	defer h.Release()
	err := os.Rename(filepath.Join(h.dir, recordName), filepath.Join(h.dir, removingName))
	if err == nil {
		err = syncDir(h.dir)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = h.remove(ctx)
	}
	if err != nil {
		return fmt.Errorf("cannot remove layer %s: %w", h.ID, err)
	}
	return nil
}

// Erase removes a layer even if its record cannot be read. It does nothing if the layer does not
// exist. While a sandbox has the layer mounted, the error is [ErrInUse].
func (s Store) Erase(ctx context.Context, id string) error {
	dir := filepath.Join(s.dir, id)
	lock, err := takeLock(dir, os.O_CREATE)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot remove layer %s: %w", id, err)
	}
	defer lock.Close()
	at := []string{dir}
	for _, place := range s.Places() {
		at = append(at, filepath.Join(place, placePrefix+id))
	}
	for _, dir := range slices.Backward(at) { // that with the lock at last
		if err := removal.Here(ctx, dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove layer %s: %w", id, err)
		}
	}
	return nil
}

// finishRemoval goes on with a removal that was interrupted.
func (h *Held) finishRemoval(ctx context.Context) (err error) {
	if h.Record, err = readRecord(h.dir, removingName); err != nil {
		return err
	}
	return h.remove(ctx)
}

func (h *Held) remove(ctx context.Context) error {
	for _, dir := range h.Layers {
		at := filepath.Join(h.Place, dir)
		if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := removal.Here(ctx, at); err != nil {
			return err
		}
	}
	if h.Place != h.dir {
		if err := os.Remove(h.Place); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.RemoveAll(h.dir) // nothing in it is of commands any more
}

// halfMade is how long the making of a record may take.
const halfMade = time.Minute

// Sweep removes what is half made, and layers that end with their sandboxes, and whose owners were
// killed. It looks at those that some returns of the directory of all, which the caller bounds. runs
// reports whether a sandbox may still have processes.
func (s Store) Sweep(ctx context.Context, some func(all *os.Root) []string, runs func(id string) bool) {
	if private(s.dir) != nil {
		return // it does not exist yet, or Make will refuse it
	}
	all, err := os.OpenRoot(s.dir)
	if err != nil {
		return
	}
	defer all.Close()
	for _, id := range some(all) {
		dir := filepath.Join(s.dir, id)
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || !isID(id) || runs(id) {
			continue
		}
		r, err := readRecord(dir, recordName)
		if errors.Is(err, fs.ErrNotExist) {
			if h, err := s.Open(id); err == nil { // it was just made; else a removal was gone on with
				h.Release()
				continue
			}
			if time.Since(info.ModTime()) > halfMade && !exists(filepath.Join(dir, removingName)) {
				_ = os.RemoveAll(dir) // as above; before there is a record, nothing exists elsewhere
			}
		}
		if err != nil || !r.Ends {
			continue
		}
		if h, err := s.Open(id); err == nil {
			_ = h.Remove(ctx) // it is tried again the next time
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
