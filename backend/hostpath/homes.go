package hostpath

import (
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Users are the homes of the host, by who has them.
type Users struct {
	Own  string
	dirs map[string]string
}

// FindUsers reads them. Homes that several users share, as system users do, are
// homes as well.
func FindUsers() Users {
	u := Users{dirs: map[string]string{}}
	text, err := os.ReadFile("/etc/passwd")
	if err != nil {
		text = nil // no such file elsewhere: the caller's own home is known
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(line, ":"); len(f) > 5 && filepath.IsAbs(f[5]) && filepath.Clean(f[5]) != "/" {
			u.dirs[f[0]] = filepath.Clean(f[5])
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		u.Own = Future(filepath.Clean(home))
	} else if me, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		u.Own = Future(me.HomeDir)
	}
	return u
}

func (u Users) Has(dir string) bool {
	if dir == u.Own {
		return true
	}
	for _, home := range u.dirs {
		if home == dir {
			return true
		}
	}
	return false
}

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

// Homes are those of the users of this host.
func Homes() []string { return FindUsers().All() }

func (u Users) All() []string {
	list := []string{u.Own}
	for _, home := range u.dirs {
		list = append(list, home)
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(home string) bool { return !filepath.IsAbs(home) })
}
