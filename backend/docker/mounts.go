package docker

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
)

// binds collects the mounts of a container, parents before their children.
type binds struct {
	shown []hostpath.Mount // mounts that the user named, the workspace first
	list  []mount
	at    map[string]int // the index in list, by target
	// covered are the sockets of the host that are covered.
	covered []string
	// below returns the host's mount points below a directory. Tests replace it.
	below func(dir string) []string
}

// maxMounts is how many mounts one container may have: engines put each of them on
// a command line and into several files.
const maxMounts = 1024

// newBinds makes the mounts that the user named, and further ones that protect or hide files
// in these that commands must not change or see.
func newBinds(req backend.Request, shown []hostpath.Mount, sockets []string) (*binds, error) {
	b := &binds{shown: shown, at: map[string]int{}, below: hostpath.MountedBelow}
	covers, err := hostpath.Covers(req, shown)
	for _, m := range shown {
		for _, s := range sockets { // a process that reaches one controls the whole host
			if _, ok := hostpath.Within(s, m.Source); ok && !m.Copied {
				err = errors.Join(err, hostpath.Refuse(m.Field, m.Source, "it shows "+s+", and whoever controls the engine controls the whole host", "name a directory without it, or say so in docker.extra_run_args"))
			}
		}
	}
	if err != nil {
		return nil, err
	}
	for _, m := range shown {
		if !m.Copied {
			b.add(mount{kind: mountBind, source: m.Source, target: m.Target, readOnly: !m.Writable, why: m.Field + " of the spec", file: m.ID.FileID})
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
			b.protectAt(hostpath.Showing(b.shown, c.Path), c.Path, c.What)
		}
	}
	for _, g := range req.Guards {
		if g.Except == "" && g.Text == "" {
			b.protectAt(hostpath.ShowingBelow(b.shown, g.File), g.File, g.Why)
		}
	}
	for _, s := range req.Sockets {
		b.coverSocket(s)
	}
	for _, m := range b.list { // further ones lie below those that the user named
		if !utf8.ValidString(m.source) || !utf8.ValidString(m.target) {
			return nil, hostpath.Refuse("mounts", m.source, "it is not valid UTF-8, which the engine needs ("+m.why+")", "use `backend` linux")
		}
	}
	if len(b.list) > maxMounts {
		return nil, hostpath.Refuse("mounts", "", "the container would have more than 1024 mounts", "name fewer, or make them writable")
	}
	return b, nil
}

// add adds a mount. If there is one with the same target, the stricter one stays.
func (b *binds) add(m mount) {
	if m.kind == mountBind && m.file == (confine.FileID{}) {
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

// readOnlyBelow makes mounts of the host below a source read-only, unless the user has named
// them: some versions of engines leave them writable.
func (b *binds) readOnlyBelow(m hostpath.Mount) {
	for _, at := range b.below(m.Source) {
		rel, _ := hostpath.Within(at, m.Source)
		if _, named := b.at[path.Join(m.Target, rel)]; !named {
			b.add(mount{kind: mountBind, source: at, target: path.Join(m.Target, rel), readOnly: true, why: "mounted below it by the host, and so read-only"})
		}
	}
}

// hide covers a file or directory of Paddock's in every bind that would show it,
// also in read-only ones: a socket can be connected to through those as well.
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

// coverSocket covers a socket of the host in every bind that would show it.
func (b *binds) coverSocket(s backend.Socket) {
	for _, m := range b.shown {
		rel, ok := hostpath.Within(s.Path, m.Source)
		if _, other := hostpath.CoveredIn(m, b.shown, rel); !ok || m.Copied || other {
			continue
		}
		if hostpath.Overlaps(m, b.shown) { // where the other mount shows it, it would not be covered
			b.pin(m, path.Dir(rel))
		}
		b.add(mount{kind: mountBind, source: os.DevNull, target: path.Join(m.Target, rel), readOnly: true, why: "a program of the host listens there, and commands are kept from it"})
		if !slices.Contains(b.covered, s.Path) {
			b.covered = append(b.covered, s.Path)
		}
	}
}

// protectAt makes a path of the host read-only in these mounts.
func (b *binds) protectAt(mounts []hostpath.Mount, file, why string) {
	for _, m := range mounts {
		rel, _ := hostpath.Within(file, m.Source)
		if cover, ok := hostpath.CoveredIn(m, b.shown, rel); ok {
			b.pin(m, path.Dir(cover)) // this mount does not reach it, as long as the cover stays in place
			continue
		}
		b.pin(m, path.Dir(rel))
		b.add(mount{kind: mountBind, source: file, target: path.Join(m.Target, rel), readOnly: true, why: why})
	}
}

// pin makes a directory below a mount, and its parents, mounts of their own. The kernel
// refuses to rename or remove a mount point (rename(2), EBUSY), so that the protected
// files in it cannot be moved elsewhere.
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

// identify returns the identity of the file at a path, the zero value if it is unknown.
func identify(path string) confine.FileID {
	info, err := os.Stat(path)
	if err != nil {
		return confine.FileID{}
	}
	st := info.Sys().(*syscall.Stat_t)
	return confine.FileID{Dev: uint64(st.Dev), Ino: st.Ino} //nolint:unconvert // its type differs between platforms
}

// sockets returns where engines listen on this host, free of symbolic links. Whoever
// reaches one of these sockets controls the engine.
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
