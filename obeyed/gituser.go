package obeyed

import (
	"context"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
)

// Bounds of reading the user's identity.
const (
	maxUserFiles = 64
	maxUserName  = 256 // bytes
)

// gitUser reads the user's identity in git.
type gitUser struct {
	ctx    context.Context
	homes  hostpath.Users
	dir    string            // of the repository, or ""
	values map[string]string // by key
	files  int
	unsure bool // something that cannot be read may say otherwise
}

// GitUser returns variables that give git in a sandbox the name and address that the user's
// git would have in this directory, by the configuration of the system, the user and the
// repository. It returns none if that is not certain, for example because a file is not in
// the form that git writes.
func GitUser(ctx context.Context, root string) (vars map[string]string) {
	vars = map[string]string{}
	p := &protector{homes: hostpath.FindUsers()}
	u := &gitUser{ctx: ctx, homes: p.homes, values: map[string]string{}}
	dir, common, err := gitDirs(ctx, root)
	if err != nil {
		return vars
	}
	u.dir = dir
	for _, f := range p.userConfiguration() {
		u.read(f.path, 0)
	}
	if common != "" {
		u.read(filepath.Join(common, "config"), -1)
	}
	if u.unsure || len(p.out.Unread) > 0 {
		return vars
	}
	for _, role := range []string{"author", "committer"} {
		for _, what := range []string{"name", "email"} {
			value, own := u.values[role+"."+what]
			if !own {
				value = u.values["user."+what]
			}
			if value != "" && len(value) <= maxUserName && !strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
				vars["GIT_"+strings.ToUpper(role+"_"+what)] = value
			}
		}
	}
	return vars
}

// read reads one file. depth is the depth of includes. If it is below 0, the file has no
// includes followed, because commands could have made it.
func (u *gitUser) read(file string, depth int) {
	found := hostpath.Real(file)
	if found == "" {
		return
	}
	if u.files++; u.files > maxUserFiles || depth > maxIncludeDepth {
		u.unsure = true
		return
	}
	text, err := hostpath.Read(u.ctx, "/", found[1:], gitconfig.MaxSize)
	var settings []gitconfig.Entry
	if err == nil {
		settings, err = gitconfig.Parse(text)
	}
	if err != nil {
		u.unsure = true
		return
	}
	for _, s := range settings {
		condition, conditional := strings.CutPrefix(s.Key, "includeif.")
		switch {
		case s.Key == "include.path" || conditional && strings.HasSuffix(s.Key, ".path"):
			if depth < 0 {
				u.unsure = true
				return
			}
			included := gitconfig.Absolute(u.homes.Expand(s.Value), filepath.Dir(file))
			holds, known := true, true
			if conditional {
				holds, known = u.holds(strings.TrimSuffix(condition, ".path"))
			}
			switch {
			case !known:
				other := &gitUser{ctx: u.ctx, homes: u.homes, dir: u.dir, values: map[string]string{}, files: u.files}
				other.read(included, depth+1)
				u.files, u.unsure = other.files, u.unsure || other.unsure || len(other.values) > 0
			case holds:
				u.read(included, depth+1)
			}
		case s.Key == "user.name", s.Key == "user.email", s.Key == "author.name", s.Key == "author.email", s.Key == "committer.name", s.Key == "committer.email":
			u.values[s.Key] = s.Value
		}
	}
}

// holds reports whether a condition of includeIf is true, and whether that is known: it is
// for gitdir, with an absolute path and without patterns.
func (u *gitUser) holds(condition string) (holds, known bool) {
	kind, pattern, _ := strings.Cut(condition, ":")
	pattern = u.homes.Expand(pattern)
	if kind != "gitdir" && kind != "gitdir/i" || !filepath.IsAbs(pattern) || strings.ContainsAny(pattern, `*?[\`) {
		return false, false
	}
	if u.dir == "" {
		return false, true
	}
	dir := u.dir
	if kind == "gitdir/i" {
		dir, pattern = strings.ToLower(dir), strings.ToLower(pattern)
	}
	if strings.HasSuffix(pattern, "/") {
		return strings.HasPrefix(dir, pattern), true
	}
	return dir == pattern, true
}
