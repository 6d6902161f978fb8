//go:build linux

package linux

import (
	"cmp"
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
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// view is the sandbox's future file tree, as far as the host knows it before the start.
type view struct {
	root   string // the directory that programs come from, "/" for the host's own
	mounts []hostpath.Mount
	links  []string // to the workspace, in which no directory of PATH may be
}

// view returns the view of the plan's sandbox.
func (b *builder) view() view {
	v := view{root: "/", mounts: b.mounts, links: b.links}
	if b.spec.RootFS != policy.RootHost && b.spec.RootFS != "" {
		v.root = hostpath.Real(b.spec.RootFS)
	}
	if len(b.plan.Namespaces) == 0 { // paths are the host's
		v.mounts = slices.Clone(v.mounts)
		for i := range v.mounts {
			v.mounts[i].Target = v.mounts[i].Source
		}
	}
	return v
}

// host returns where a path inside lies on the host, and the mount that shows it, or
// through which commands could change it. The path is empty if no program can be there.
func (v view) host(at string) (string, *hostpath.Mount) {
	var deepest *hostpath.Mount
	var below string
	for i, m := range v.mounts {
		if rel, ok := hostpath.Within(at, m.Target); ok && (deepest == nil || len(m.Target) > len(deepest.Target)) {
			deepest, below = &v.mounts[i], rel
		}
	}
	if deepest != nil {
		return path.Join(deepest.Source, below), deepest
	}
	top, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
	if top != "etc" && slices.Contains(ownPlaces, top) {
		return "", nil
	}
	host := filepath.Join(v.root, at)
	for i, m := range v.mounts {
		if _, ok := hostpath.Within(host, m.Source); ok && m.Writable {
			return host, &v.mounts[i]
		}
	}
	return host, nil
}

// maxLinks is how many links the kernel follows in one path.
const maxLinks = 40

// resolve follows the links in a path as a process inside will. A path that is not
// visible inside does not exist.
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
		if host == "" { // it exists only as a directory above a mount
			if !slices.ContainsFunc(v.mounts, func(m hostpath.Mount) bool { _, below := hostpath.Within(m.Target, next); return below }) {
				return "", syscall.ENOENT
			}
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

// searchPath sets PATH to the directories of the caller's PATH that are visible inside and
// that commands cannot write, in the caller's order, followed by the standard ones. PATH is
// not changed if the request has none, if the spec sets one or restricts which programs may
// be called, or with another root file system.
func (b *builder) searchPath(req backend.Request) {
	_, written := b.spec.Env["PATH"]
	if req.Path == "" || written || b.spec.Commands != nil || b.spec.RootFS != policy.RootHost && b.spec.RootFS != "" {
		return
	}
	v, standard := b.view(), strings.Split(policy.SearchPath, ":")
	var dirs []string
	seen := map[string]bool{}
	for _, entry := range strings.Split(req.Path, ":") {
		dir := path.Clean(entry)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		if !slices.Contains(standard, dir) {
			why := v.unsearchable(req, entry)
			switch tools := b.toolDir(req, v, entry); {
			case why == "" || tools == dir:
			case tools != "" && !seen[tools]:
				seen[tools], dir = true, tools
			case tools != "":
				continue // it is searched already
			default:
				why = cmp.Or(req.Toolchains.LeftOut[entry], why)
				b.plan.LeftOut = append(b.plan.LeftOut, confine.LeftOut{Dir: entry, Why: text.Escape(why)})
				continue
			}
		}
		dirs = append(dirs, dir)
	}
	for _, dir := range standard {
		if !seen[dir] {
			dirs = append(dirs, dir)
		}
	}
	b.plan.Env["PATH"] = strings.Join(dirs, ":")
}

// unsearchable returns why an entry of the caller's PATH cannot be used inside, or "" if
// it can. Whether it is visible is decided without looking at the host.
func (v view) unsearchable(req backend.Request, entry string) string {
	switch {
	case entry == "":
		return "it is empty, which is the current directory"
	case !path.IsAbs(entry):
		return "it is not an absolute path"
	case !utf8.ValidString(entry):
		return "it is not valid UTF-8"
	}
	dir := path.Clean(entry)
	if _, mount := v.host(dir); mount == nil && !slices.ContainsFunc(slices.Concat(systemDirs, v.links), func(top string) bool { return hostpath.Under(dir, top) }) {
		return "it is not visible inside"
	}
	resolved, err := hostpath.SearchDir(req, dir)
	if err != nil {
		return err.Error()
	}
	at, err := v.resolve(dir)
	if err != nil {
		return "a link in it leads to what is not visible inside"
	}
	if host, _ := v.host(at); host != resolved {
		return "inside there is another directory at its place"
	}
	return ""
}
