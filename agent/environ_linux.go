package agent

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// baseEnvironment is what commands of an agent without walls start with.
// Nothing of the agent's own environment reaches them.
func baseEnvironment(extra []string) (map[string]string, error) {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG": "C.UTF-8",
	}
	env["USER"], env["HOME"], env["SHELL"] = account(os.Geteuid())
	env["LOGNAME"] = env["USER"]
	for _, text := range extra {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" || strings.IndexByte(text, 0) >= 0 {
			return nil, hinted{fmt.Errorf("%q is no environment variable", text), "write --env NAME=VALUE"}
		}
		env[name] = value
	}
	return env, nil
}

// account is what the machine's own list of users says of a uid. Users from
// elsewhere need --env.
func account(uid int) (name, home, shell string) {
	name, home, shell = strconv.Itoa(uid), "/", "/bin/sh"
	if uid == 0 {
		name, home = "root", "/root"
	}
	file, err := os.Open("/etc/passwd")
	if err != nil {
		return name, home, shell
	}
	defer file.Close()
	lines := bufio.NewScanner(io.LimitReader(file, 1<<20))
	for lines.Scan() {
		f := strings.Split(lines.Text(), ":")
		if len(f) != 7 || f[2] != strconv.Itoa(uid) || f[0] == "" {
			continue
		}
		name = f[0]
		if f[5] != "" {
			home = f[5]
		}
		if f[6] != "" {
			shell = f[6]
		}
		break
	}
	return name, home, shell
}
