//go:build linux

package linux

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/paddock-dev/paddock/policy"
)

// view is the sandbox's file tree, seen from the host before there is one.
type view struct {
	root   string // that programs come from, "/" for the host's own
	mounts []userMount
}

func (b *builder) view() view {
	v := view{root: "/", mounts: b.mounts}
	if b.spec.RootFS != policy.RootHost && b.spec.RootFS != "" {
		v.root = realPath(b.spec.RootFS)
	}
	if len(b.plan.Namespaces) == 0 { // paths are the host's
		v.mounts = slices.Clone(v.mounts)
		for i := range v.mounts {
			v.mounts[i].target = v.mounts[i].source
		}
	}
	return v
}

// host is where a path inside lies on the host, and the mount that shows it.
// It is empty for what programs cannot come from.
func (v view) host(at string) (string, *userMount) {
	var deepest *userMount
	var below string
	for i, m := range v.mounts {
		if rel, ok := within(at, m.target); ok && (deepest == nil || len(m.target) > len(deepest.target)) {
			deepest, below = &v.mounts[i], rel
		}
	}
	if deepest != nil {
		return path.Join(deepest.source, below), deepest
	}
	top, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	if top != "etc" && slices.Contains(ownPlaces, top) {
		return "", nil
	}
	return filepath.Join(v.root, at), v.writable(filepath.Join(v.root, at))
}

// leads says whether a directory inside is there for a mount below it.
func (v view) leads(at string) bool {
	return slices.ContainsFunc(v.mounts, func(m userMount) bool {
		_, below := within(m.target, at)
		return below
	})
}

// writable is the mount through which commands could change a file of the host.
func (v view) writable(host string) *userMount {
	for i, m := range v.mounts {
		if _, ok := within(host, m.source); ok && m.writable {
			return &v.mounts[i]
		}
	}
	return nil
}

// maxLinks is how many links the kernel follows in one path.
const maxLinks = 40

// resolve follows the links in a path as a process inside will. A path that is
// not shown there does not exist.
func (v view) resolve(name string) (string, error) {
	at, rest := "/", strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		word := rest[0]
		rest = rest[1:]
		if word == "" || word == "." || word == ".." {
			if word == ".." {
				at = path.Dir(at)
			}
			continue
		}
		next := path.Join(at, word)
		host, _ := v.host(next)
		if host == "" && !v.leads(next) {
			return "", syscall.ENOENT
		}
		if host == "" {
			at = next
			continue
		}
		info, err := os.Lstat(host)
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		text, err := os.Readlink(host)
		if err != nil {
			return "", err
		}
		if path.IsAbs(text) {
			at = "/"
		}
		rest = append(strings.Split(text, "/"), rest...)
	}
	return at, nil
}
