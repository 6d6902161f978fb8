package namespace

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// writeMaps writes the maps of the user namespace that a child has made.
func (u *Unshare) writeMaps(pid int) error {
	if u.Namespaces&unix.CLONE_NEWUSER == 0 {
		return nil
	}
	setgroups := u.Setgroups
	if u.denies() {
		setgroups = "deny"
	}
	for _, file := range []struct{ name, text string }{
		{"uid_map", lines(u.UIDs)}, {"setgroups", setgroups}, {"gid_map", lines(u.GIDs)},
	} {
		if file.text == "" {
			continue
		}
		err := os.WriteFile("/proc/"+strconv.Itoa(pid)+"/"+file.name, []byte(file.text), 0)
		if err != nil {
			return &Error{Op: "write", Object: file.name + " of the new user namespace", Err: bare(err), Hint: mapHint()}
		}
	}
	return nil
}

func lines(maps []Map) string {
	var b strings.Builder
	for _, m := range maps {
		b.WriteString(m.line())
	}
	return b.String()
}

func mapHint() string {
	if os.Geteuid() != 0 {
		return "an ordinary user can map one id alone, its own (--map-root-user or --map-current-user)"
	}
	return "maps must not overlap, and only ids that the caller's own user namespace has can be mapped"
}
