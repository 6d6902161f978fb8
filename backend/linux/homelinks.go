//go:build linux

package linux

import (
	"path"
	"slices"
)

// homeLink is a symbolic link in HOME, by its path there.
type homeLink struct{ rel, text string }

// homeLinks are those that show mounts below the caller's home below HOME, too, where
// programs look for them: ~ means the same on both sides. home may be empty. None lies
// in another one, or where something else is mounted.
func homeLinks(home string, mounts []userMount) []homeLink {
	var links []homeLink
	for _, m := range mounts[1:] { // the workspace is elsewhere
		rel, ok := within(m.target, home)
		if !ok || home == "" || home == "/" || rel == "" {
			continue
		}
		at := path.Join(homeDir, rel)
		taken := slices.ContainsFunc(mounts, func(o userMount) bool {
			_, above := within(at, o.target)
			_, below := within(o.target, at)
			return above || below
		}) || slices.ContainsFunc(links, func(l homeLink) bool {
			_, inside := within(rel, l.rel)
			_, around := within(l.rel, rel)
			return inside || around
		})
		if !taken {
			links = append(links, homeLink{rel, m.target})
		}
	}
	return links
}
