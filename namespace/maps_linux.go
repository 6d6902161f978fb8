package namespace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// idKind is what user ids and group ids have of their own.
type idKind struct {
	what   string // in errors
	file   string // of a process's map, below /proc/PID
	ranges string // the file with subordinate ids
	helper string // the program that writes maps for an ordinary user
	lookup func(name string) (id string, err error)
}

var (
	userIDs = &idKind{"user", "uid_map", "/etc/subuid", "/usr/bin/newuidmap", func(name string) (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	}}
	groupIDs = &idKind{"group", "gid_map", "/etc/subgid", "/usr/bin/newgidmap", func(name string) (string, error) {
		g, err := user.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	}}
)

// parse reads an id, or a name that the host has for one.
func (k *idKind) parse(value string) (id uint32, wrong string) {
	if n, err := k.lookup(value); err == nil {
		value = n
	} else if _, err := strconv.ParseUint(value, 10, 32); err != nil && value[0] != '-' {
		return 0, "the host has no " + k.what + " of that name"
	}
	var p *uint32
	if wrong := parseID(value, &p); wrong != "" {
		return 0, wrong
	}
	return *p, ""
}

// writeMaps writes the maps of the user namespace that the child has made.
func (u *Unshare) writeMaps(pid int) error {
	if u.Namespaces&unix.CLONE_NEWUSER == 0 {
		return nil
	}
	setgroups := u.Setgroups
	if u.denies() {
		setgroups = "deny"
	}
	uids, err := u.mapsOf(userIDs, u.UIDs)
	if err != nil {
		return err
	}
	gids, err := u.mapsOf(groupIDs, u.GIDs)
	if err != nil {
		return err
	}
	proc := "/proc/" + strconv.Itoa(pid) + "/"
	if err := u.writeMap(proc, userIDs, uids); err != nil {
		return err
	}
	if setgroups != "" {
		if err := os.WriteFile(proc+"setgroups", []byte(setgroups), 0); err != nil {
			return &Error{Op: "write", Object: "setgroups of the new user namespace", Err: withoutPath(err)}
		}
	}
	return u.writeMap(proc, groupIDs, gids)
}

// mapsOf returns maps, with those of the caller's subordinate ids if they are wanted.
func (u *Unshare) mapsOf(k *idKind, maps []Map) ([]Map, error) {
	if !u.MapAuto {
		return maps, nil
	}
	uid := strconv.Itoa(os.Geteuid())
	name := uid
	if own, err := user.LookupId(uid); err == nil {
		name = own.Username
	}
	refuse := func(err error) error {
		return &Error{Op: "map", Object: "the subordinate " + k.what + "s of " + name, Err: err,
			Hint: "give them some: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 " + name}
	}
	text, err := os.ReadFile(k.ranges)
	if err != nil {
		return nil, refuse(err)
	}
	start, count, ok := subordinate(string(text), name, uid)
	if !ok {
		return nil, refuse(errors.New(k.ranges + " has none"))
	}
	return fill(maps, start, count), nil
}

// subordinate returns the first range of a user in a file as subuid(5) describes it.
func subordinate(text, name, uid string) (start, count uint32, ok bool) {
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] != name && f[0] != uid {
			continue
		}
		first, err1 := strconv.ParseUint(f[1], 10, 32)
		n, err2 := strconv.ParseUint(f[2], 10, 32)
		if err1 == nil && err2 == nil && n > 0 {
			return uint32(first), uint32(n), true
		}
	}
	return 0, 0, false
}

// fill adds maps of count ids from start to the ids from 0 that maps leave free.
func fill(maps []Map, start, count uint32) []Map {
	maps = slices.Clone(maps)
	slices.SortFunc(maps, func(a, b Map) int { return cmp.Compare(a.Inside, b.Inside) })
	next := uint32(0) // the first id inside that is not mapped yet
	var filled []Map
	add := func(n uint32) {
		if n > 0 {
			filled = append(filled, Map{next, start, n})
			start, count = start+n, count-n
		}
	}
	for _, m := range maps {
		if m.Inside > next {
			add(min(count, m.Inside-next))
		}
		filled = append(filled, m)
		next = max(next, m.Inside+m.Count)
	}
	add(min(count, 1<<32-1-next))
	return filled
}

// writeMap writes a map of a process's user namespace.
func (u *Unshare) writeMap(proc string, k *idKind, maps []Map) error {
	if len(maps) == 0 {
		return nil
	}
	refuse := func(err error, hint string) error {
		return &Error{Op: "write", Object: k.file + " of the new user namespace", Err: withoutPath(err), Hint: hint}
	}
	if os.Geteuid() != 0 && u.MapAuto {
		if err := k.writeByHelper(proc, maps); err != nil {
			return refuse(err, "an ordinary user's subordinate ids are mapped by "+k.helper+", which the package uidmap or shadow-utils has")
		}
		return nil
	}
	err := os.WriteFile(proc+k.file, []byte(lines(maps)), 0)
	switch {
	case err == nil:
		return nil
	case os.Geteuid() != 0:
		return refuse(err, "an ordinary user can map only one id, their own (--map-root-user or --map-current-user)")
	}
	return refuse(err, "maps must not overlap, and only ids that the caller's own user namespace has can be mapped")
}

// writeByHelper has a map written by the host's program for that. The map itself shows
// whether that worked, because the program may be reaped as a process of the command.
func (k *idKind) writeByHelper(proc string, maps []Map) error {
	args := []string{strings.Split(proc, "/")[2]}
	for _, m := range maps {
		args = append(args, strings.Fields(lines([]Map{m}))...)
	}
	cmd := exec.Command(k.helper, args...)
	cmd.Env = []string{}
	said, err := cmd.CombinedOutput()
	if written, rerr := os.ReadFile(proc + k.file); rerr == nil && len(bytes.TrimSpace(written)) > 0 {
		return nil
	}
	if text := strings.TrimSpace(string(said)); text != "" {
		return errors.New(text)
	}
	return cmp.Or(err, errors.New("it was not written"))
}

// lines returns maps as the kernel reads them.
func lines(maps []Map) string {
	var b strings.Builder
	for _, m := range maps {
		fmt.Fprintf(&b, "%d %d %d\n", m.Inside, m.Outside, m.Count)
	}
	return b.String()
}
