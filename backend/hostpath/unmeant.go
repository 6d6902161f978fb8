package hostpath

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/text"
)

// hostOwn are the host's own directories, with everything in them.
var hostOwn = []string{"/etc", "/usr", "/var", "/opt", "/boot", "/run", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/proc", "/sys", "/dev"}

// places are directories of the host in which many things lie that have nothing to do with each other.
// What lies in them may be a workspace.
var places = []string{"/tmp", "/var/tmp", "/srv", "/mnt", "/media"}

// Unasked says why a directory must not become the workspace only because it is the current directory:
// it "is or holds" a home or one of the system's directories, or "lies in" one of the latter, or is a
// place of many things such as /tmp itself or of the sockets of a session, or others than the caller
// can change it ([Shared]). An ordinary user may use a directory of their own in the system's. It
// returns "" for other directories. dir is absolute, without symbolic links.
func Unasked(dir string) (why string) {
	if slices.Contains(places, dir) {
		return "is where everything in " + dir + " lies"
	}
	if filepath.Dir(dir) == "/run/user" || dir == Real(os.Getenv("XDG_RUNTIME_DIR")) {
		return "is where the sockets of a session lie"
	}
	if home := Home(dir); home != "" {
		return "is or holds " + home
	}
	for _, system := range hostOwn {
		if _, inside := Within(system, dir); inside {
			return "is or holds " + system
		}
		if _, inside := Within(dir, system); !inside {
			continue
		}
		if _, temporary := Within(dir, "/var/tmp"); temporary {
			continue
		}
		var st unix.Stat_t
		if uid := os.Geteuid(); uid == 0 || unix.Stat(dir, &st) != nil || st.Uid != uint32(uid) {
			return "lies in " + system
		}
	}
	if others := Shared(dir); others != "" {
		return "can be changed by " + others
	}
	return ""
}

// Shared says who else than root, the caller and the caller's own groups can change a directory, with
// the mode or list that lets them, or returns "". For root its owner and the owner's own group do not
// count, for whom root works there.
func Shared(dir string) (who string) {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return ""
	}
	mode := fmt.Sprintf(" (mode %04o)", st.Mode&0o7777)
	owner, me := st.Uid, uint32(os.Geteuid())
	named, group := writers(dir, st.Mode&0o020 != 0)
	switch {
	case st.Mode&0o002 != 0:
		return "every user of this host" + mode
	case named:
		return "those whom its access control list names (getfacl " + text.Escape(dir) + ")"
	case group && st.Gid != 0 && !loginGroup(st.Gid) && (me != 0 || !privateGroup(st.Gid, owner)) && (st.Gid != nobody || !nobodyUnmapped()):
		return "the group " + strconv.FormatUint(uint64(st.Gid), 10) + mode
	case st.Mode&0o200 != 0 && owner != 0 && owner != me && me != 0 && (owner != nobody || !nobodyUnmapped()):
		name, _ := nameOf(owner)
		return name + ", to whom it belongs"
	}
	return ""
}

// Openings says what these mounts open that nobody may have meant: a home, and directories that others
// than the caller can change. Only what commands can change counts, and the workspace.
func Openings(mounts []Mount) (lines []string) {
	for i, m := range mounts {
		if !m.Dir || m.Stored != nil || m.Field == "home" || i > 0 && !m.Writable {
			continue
		}
		can := "read and change"
		if !m.Writable {
			can = "read"
		}
		if home := Home(m.Source); home != "" {
			lines = append(lines, fmt.Sprintf("keeping commands out of %s: %s is or holds it, and they can %s what is in it, keys and the settings of shells and tools among them", home, text.Escape(m.Source), can))
		}
		if who := Shared(m.Source); who != "" {
			lines = append(lines, fmt.Sprintf("keeping others out: %s can be changed by %s, who can choose what commands find there", text.Escape(m.Source), who))
		}
	}
	return lines
}
