//go:build linux

package linux

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/policy"
)

// searchPath sets PATH to those of the caller's directories that are visible inside
// and that commands cannot write, in the caller's order, and the standard ones
// behind them. It stays as it is where the request has no PATH, where the spec sets
// one or says which programs may be called, and with another root file system.
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
			if why := v.unsearchable(req, entry); why != "" {
				b.plan.LeftOut = append(b.plan.LeftOut, confine.LeftOut{Dir: entry, Why: hostpath.Printable(why)})
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

// unsearchable says why an entry of the caller's PATH is of no use inside, "" where
// it is. What is not visible is found out without a look at the host.
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
	if _, mount := v.host(dir); mount == nil && !slices.ContainsFunc(systemDirs, func(top string) bool { _, ok := within(dir, top); return ok }) {
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
