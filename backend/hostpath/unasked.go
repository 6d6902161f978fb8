package hostpath

import (
	"bufio"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// hostOwn are the host's own, and all that lies in them.
var hostOwn = []string{"/etc", "/usr", "/var", "/opt", "/boot", "/run", "/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/proc", "/sys", "/dev"}

// Unasked says why nobody means a directory as a workspace just by being there: "is or
// holds your home", somebody else's or one of the system's directories, or "lies in" one
// of these, unless an ordinary user who asks owns it. It is empty for other directories.
// dir is absolute, without symbolic links.
func Unasked(dir string) (why string) {
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
		info, err := os.Stat(dir)
		if uid := os.Geteuid(); uid == 0 || err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(uid) {
			return "lies in " + system
		}
	}
	return ""
}

// Home returns which home a directory is or holds: the caller's, or somebody else's.
// It is empty for other directories. dir is absolute, without symbolic links.
func Home(dir string) (what string) {
	own, _ := os.UserHomeDir()
	places := [][2]string{{own, "your home"}, {"/root", "root's home"}}
	for _, home := range homes() {
		places = append(places, [2]string{home, "a home, " + home})
	}
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

// homes are those of people, by the host's list of users.
func homes() (list []string) {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 6 {
			continue
		}
		if uid, err := strconv.ParseUint(fields[2], 10, 32); err == nil && uid >= 1000 && uid < 65534 && path.IsAbs(fields[5]) {
			list = append(list, fields[5])
		}
	}
	return list
}
