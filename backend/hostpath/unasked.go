package hostpath

import (
	"bufio"
	"os"
	"path"
	"strconv"
	"strings"
)

// Unasked returns what a directory is, or holds, that nobody means as a workspace
// just by being there: the caller's home, somebody else's, /etc or /usr. It is empty
// for other directories. dir is absolute, without symbolic links.
func Unasked(dir string) (what string) {
	own, _ := os.UserHomeDir()
	places := [][2]string{{own, "your home"}, {"/etc", "/etc"}, {"/usr", "/usr"}, {"/root", "root's home"}}
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
