package docker

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// binds collects the mounts of a container, parents first.
type binds struct {
	shown []hostpath.Mount // what the user named, the workspace first
	list  []mount
	at    map[string]int // by target: its place in list
	// below gives the host's mount points below a directory.
	below func(dir string) []string
}

// maxMounts bounds the mounts of one container: engines put each of them on a
// command line and into several files.
const maxMounts = 1024

// newBinds makes the mounts for what the user named, and for what must not be
// changed or seen through it.
func newBinds(req backend.Request, shown []hostpath.Mount, sockets []string) (*binds, error) {
	b := &binds{shown: shown, at: map[string]int{}, below: hostpath.MountedBelow}
	covers, err := hostpath.Covers(req, shown)
	if err := errors.Join(err, b.refuse(sockets)); err != nil {
		return nil, err
	}
	for _, m := range shown {
		if !m.Copied {
			b.add(mount{kind: mountBind, source: m.Source, target: m.Target, readOnly: !m.Writable, why: m.Field + " of the spec", file: fileID{m.ID.Dev, m.ID.Ino}})
		}
	}
	for _, m := range shown {
		if !m.Copied {
			b.readOnlyBelow(m)
		}
	}
	for _, c := range covers {
		if c.Hidden {
			b.hide(c)
		} else {
			b.protectAt(b.writable(c.Path), c.Path, c.What)
		}
	}
	for _, g := range req.Guards {
		if g.Except == "" && g.Text == "" {
			b.protectAt(b.writableBelow(g.File), g.File, g.Why)
		}
	}
	if len(b.list) > maxMounts {
		return nil, hostpath.Refuse("mounts", "", "they make more than 1024 mounts", "name fewer, or make them writable")
	}
	return b, nil
}

// add adds a mount, or makes one that is at the same place stricter.
func (b *binds) add(m mount) {
	if m.kind == mountBind && m.file == (fileID{}) {
		m.file = identify(m.source)
	}
	if i, ok := b.at[m.target]; ok {
		if m.kind != b.list[i].kind || m.readOnly {
			b.list[i] = m
		}
		return
	}
	b.at[m.target] = len(b.list)
	b.list = append(b.list, m)
}

// refuse refuses sources that show the sockets by which an engine is commanded,
// since who reaches one has the host.
func (b *binds) refuse(sockets []string) error {
	var errs []error
	for _, m := range b.shown {
		for _, s := range sockets {
			if _, ok := hostpath.Within(s, m.Source); ok && !m.Copied {
				errs = append(errs, hostpath.Refuse(m.Field, m.Source, "it shows "+s+", and who commands the engine has the whole host", "name a directory without it, or say so in `docker.extra_run_args`"))
			}
		}
	}
	return errors.Join(errs...)
}

// readOnlyBelow makes what the host has mounted below a source read-only, unless
// the user has named it: engines leave that writable, or not, as their versions go.
func (b *binds) readOnlyBelow(m hostpath.Mount) {
	for _, at := range b.below(m.Source) {
		rel, _ := hostpath.Within(at, m.Source)
		if _, named := b.at[path.Join(m.Target, rel)]; !named {
			b.add(mount{kind: mountBind, source: at, target: path.Join(m.Target, rel), readOnly: true, why: "mounted below it by the host, and so read-only"})
		}
	}
}

// hide covers a file or directory of Paddock's wherever a bind would show it,
// read-only ones included: a socket can be connected to through those as well.
func (b *binds) hide(c hostpath.Cover) {
	for _, m := range b.shown {
		rel, ok := hostpath.Within(c.Path, m.Source)
		if !ok || m.Copied {
			continue
		}
		if m.Writable {
			b.pin(m, path.Dir(rel))
		}
		cover := mount{kind: mountTmpfs, target: path.Join(m.Target, rel), readOnly: true, why: c.What + " is not visible"}
		if !c.Dir {
			cover.kind, cover.source = mountBind, os.DevNull
		}
		b.add(cover)
	}
}

// writable lists the writable mounts through which a path of the host can be
// reached.
func (b *binds) writable(file string) []hostpath.Mount {
	var found []hostpath.Mount
	for _, m := range b.shown {
		if _, ok := hostpath.Within(file, m.Source); ok && m.Writable && !m.Copied {
			found = append(found, m)
		}
	}
	return found
}

// writableBelow is writable without mounts of the path itself: which of these
// may be made was decided before.
func (b *binds) writableBelow(file string) []hostpath.Mount {
	return slices.DeleteFunc(b.writable(file), func(m hostpath.Mount) bool { return m.Source == file })
}

// protectAt makes a path of the host read-only in these mounts.
func (b *binds) protectAt(mounts []hostpath.Mount, file, why string) {
	for _, m := range mounts {
		rel, _ := hostpath.Within(file, m.Source)
		if cover, ok := b.cover(m, rel); ok {
			b.pin(m, path.Dir(cover)) // not reachable through this mount, as long as that stays in place
			continue
		}
		b.pin(m, path.Dir(rel))
		b.add(mount{kind: mountBind, source: file, target: path.Join(m.Target, rel), readOnly: true, why: why})
	}
}

// cover finds another mount inside m that hides a path of it.
func (b *binds) cover(m hostpath.Mount, rel string) (at string, ok bool) {
	for _, o := range b.shown {
		at, below := hostpath.Within(o.Target, m.Target)
		if _, hidden := hostpath.Within(path.Join(m.Target, rel), o.Target); below && at != "" && hidden {
			return at, true
		}
	}
	return "", false
}

// pin makes a directory below a mount, and its parents, mounts of their own:
// the kernel renames and removes no mount point (rename(2), EBUSY), so that the
// protection of what is in it cannot be taken elsewhere.
func (b *binds) pin(m hostpath.Mount, rel string) {
	if rel == "." || rel == "" {
		return
	}
	b.pin(m, path.Dir(rel))
	at := path.Join(m.Target, rel)
	if _, ok := b.at[at]; !ok {
		b.add(mount{kind: mountBind, source: filepath.Join(m.Source, rel), target: at, why: "a mount point cannot be renamed away"})
	}
}

// fileID tells one file of this host from every other. Zero: not known.
type fileID struct{ dev, ino uint64 }

func identify(path string) fileID {
	info, err := os.Stat(path)
	if err != nil {
		return fileID{}
	}
	st := info.Sys().(*syscall.Stat_t)
	return fileID{uint64(st.Dev), st.Ino} //nolint:unconvert // its type differs between platforms
}

// sockets returns where engines listen on this host, free of symbolic links: who
// reaches one commands the engine.
func (e *engine) sockets() []string {
	paths := []string{"/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock"}
	if dir := e.value("XDG_RUNTIME_DIR"); dir != "" {
		paths = append(paths, filepath.Join(dir, "docker.sock"), filepath.Join(dir, "podman", "podman.sock"), filepath.Join(dir, "containerd-rootless"))
	}
	for _, name := range []string{"DOCKER_HOST", "CONTAINER_HOST", "CONTAINERD_ADDRESS"} {
		if at := strings.TrimPrefix(e.value(name), "unix://"); filepath.IsAbs(at) {
			paths = append(paths, at)
		}
	}
	var there []string
	for _, p := range paths {
		if p = hostpath.Real(p); p != "" {
			there = append(there, p)
		}
	}
	return there
}
