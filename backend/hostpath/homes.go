package hostpath

import (
	"maps"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Users are the homes of this host's users.
type Users struct {
	Own  string            // the caller's, without links
	dirs map[string]string // by the user's name
	all  []string          // what All returns
}

// FindUsers reads the host's list of users. Homes that several users share, as system
// users do, count as well.
func FindUsers() Users {
	u := Users{dirs: map[string]string{}}
	eachUser(func(name, _, home string) {
		if filepath.Clean(home) != "/" {
			u.dirs[name] = filepath.Clean(home)
		}
	})
	if home, err := os.UserHomeDir(); err == nil {
		u.Own = Future(filepath.Clean(home))
	} else if me, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		u.Own = Future(me.HomeDir)
	}
	u.resolve()
	return u
}

// resolve sets all. Paths without links are compared with it, and those that links can lead elsewhere.
func (u *Users) resolve() {
	list := append(slices.Collect(maps.Values(u.dirs)), u.Own)
	slices.Sort(list)
	for _, home := range slices.Compact(list) {
		u.all = append(u.all, home, Future(home))
	}
	slices.Sort(u.all)
	u.all = slices.DeleteFunc(slices.Compact(u.all), func(home string) bool { return !filepath.IsAbs(home) })
}

// Has reports whether a directory is the home of a user.
func (u Users) Has(dir string) bool { return slices.Contains(u.all, dir) }

// Expand turns "~" and "~NAME" at the beginning of a path into a home.
func (u Users) Expand(path string) string {
	if !strings.HasPrefix(path, "~") {
		return path
	}
	name, rest, _ := strings.Cut(path[1:], "/")
	home := u.Own
	if name != "" {
		home = u.dirs[name]
	}
	if home == "" {
		return path
	}
	return filepath.Join(home, rest)
}

// Homes returns the homes of the users of this host.
func Homes() []string { return FindUsers().All() }

// All returns the homes, sorted, each once: as the host's list of users has them, and without links.
func (u Users) All() []string { return u.all }

// eachUser calls visit for each user of this host whose home is an absolute path. If the
// host has no list of users there are none; the caller's own home is known anyway.
func eachUser(visit func(name, uid, home string)) {
	text, _ := os.ReadFile("/etc/passwd")
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 5 && filepath.IsAbs(f[5]) {
			visit(f[0], f[2], f[5])
		}
	}
}

// Home returns which home a directory is or holds: the caller's, or another user's. It
// returns "" for other directories. dir is absolute, without symbolic links.
func Home(dir string) (what string) {
	own, _ := os.UserHomeDir()
	places := [][2]string{{own, "your home"}, {"/root", "root's home"}}
	eachUser(func(_, uid, home string) {
		if n, err := strconv.ParseUint(uid, 10, 32); err == nil && n >= 1000 && n < nobody { // of people
			places = append(places, [2]string{home, "a home, " + home})
		}
	})
	for _, p := range places {
		for _, at := range []string{path.Clean(p[0]), Real(p[0])} {
			if _, inside := Within(at, dir); inside && path.IsAbs(at) {
				return p[1]
			}
		}
	}
	if path.Dir(dir) == "/home" {
		return "a home"
	}
	return ""
}
