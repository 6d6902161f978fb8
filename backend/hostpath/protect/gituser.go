package protect

import (
	"context"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/hostpath/gitconfig"
)

// Bounds of the reading of the user's identity.
const (
	maxUserFiles = 64
	maxUserName  = 256 // bytes
)

// gitUser reads who the user is to git.
type gitUser struct {
	ctx    context.Context
	homes  hostpath.Users
	dir    string            // of the repository, "" where there is none
	values map[string]string // by key
	files  int
	unsure bool // something could say more, and cannot be told
}

// GitUser returns the variables with which git in a sandbox has the name and address
// that the user's git would have in this directory: of the system's configuration,
// the user's and the repository's. It gives none where that cannot be told for sure,
// as where a file is not in the form that git writes.
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

// read takes what one file says. depth is that of includes, and below 0 none is
// followed: commands could have made such a file.
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

// holds reports whether a condition of includeIf is true, as far as that is known: of
// gitdir, with a path in full and without patterns.
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
