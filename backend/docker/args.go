package docker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/confine"
)

// container has all settings of a container, as data. args makes the command line from
// it, and verify compares it with the container that the engine has made.
type container struct {
	id       string // of the sandbox
	image    string
	keep     bool   // do not remove it at its end
	network  string // "none", "host", or "" for the engine's default
	hostname string
	memory   int64 // bytes; 0: no limit
	swap     int64 // bytes beside memory
	cpus     string
	pids     uint64 // 0: no limit
	shm      int64  // bytes
	mounts   []mount
	tmpfs    []tmpfs
	dir      string // where the agent starts
	readOnly bool   // the root file system
	user     string
	extra    []string // the user's own arguments
	kind     string   // of engine, which decides the spelling of arguments
	keepID   bool     // of a rootless podman: the caller has the same id inside
	lowPorts bool     // every process of its network may listen at ports below 1024
}

// label is on every container and volume of Paddock, with the id of the
// sandbox as its value.
const label = "dev.paddock.sandbox"

// name returns the container's name.
func (c *container) name() string { return "paddock-" + c.id }

// args returns the arguments of the engine's command line up to the image; the
// command inside follows them. Common arguments are in their usual order. None of
// them may be secret, because everybody on the host can read them.
func (c *container) args() []string {
	args := []string{"run", "-i"}
	add := func(more ...string) { args = append(args, more...) }
	if !c.keep {
		add("--rm")
	}
	add("--name", c.name(), "--label", label+"="+c.id)
	if c.network != "" && !c.says("network", "net") {
		add("--network", c.network) // engines refuse this one twice, unlike others
	}
	if c.network != networkHost && !c.says("network", "net", "uts") {
		add("--hostname", c.hostname) // with the host's network, its name is the host's too
	}
	if c.memory > 0 {
		add("--memory", itoa(c.memory), "--memory-swap", itoa(c.memory+c.swap))
	}
	if c.pids > 0 {
		add("--pids-limit", strconv.FormatUint(c.pids, 10))
	}
	for _, m := range c.mounts {
		add("--mount", m.String())
	}
	add("-w", c.dir)
	if c.readOnly {
		add("--read-only")
	}
	for _, t := range c.tmpfs {
		add("--tmpfs", c.text(t))
	}
	args = append(args, c.hardening()...)
	if c.cpus != "" {
		add("--cpus", c.cpus)
	}
	if c.lowPorts {
		add("--sysctl", "net.ipv4.ip_unprivileged_port_start=0")
	}
	if c.user != "" {
		add("--user", c.user)
	}
	add(c.extra...)
	return append(args, c.image)
}

// hardening returns the arguments that confine every container. The user's own
// arguments come after them and may undo them.
func (c *container) hardening() []string {
	args := []string{
		"--cap-drop", "ALL",
		"--security-opt", "no-new-privileges",
		"--shm-size", itoa(c.shm),
		"--stop-timeout", "0", // the agent has ended all commands before
		"--pull", "never", // a start never downloads
		"--entrypoint", "", // the image's would run before the agent
	}
	if c.kind != nerdctl { // its IPC namespace is always private, and it keeps no log of an attached container
		args = append(args, "--ipc", "private", "--log-driver", "none") // only the caller gets the output
	}
	if c.kind == podman && c.readOnly {
		args = append(args, "--read-only-tmpfs=false") // podman would add tmpfs mounts without a limit
	}
	if c.keepID {
		args = append(args, "--userns", "keep-id")
	}
	return args
}

// mount is one --mount.
type mount struct {
	kind           string // "bind", "tmpfs", "volume"
	source, target string
	readOnly       bool
	why            string         // for people
	file           confine.FileID // of the source when it was checked
}

// String returns the mount as engines read it: as a line of CSV, with quotes where a
// path needs them.
func (m mount) String() string {
	fields := []string{"type=" + m.kind}
	if m.source != "" {
		fields = append(fields, "src="+m.source)
	}
	fields = append(fields, "dst="+m.target)
	if m.kind == mountTmpfs {
		fields = append(fields, "tmpfs-size=4096", "tmpfs-mode=0555")
	}
	if m.readOnly {
		fields = append(fields, "ro")
	}
	for i, f := range fields {
		if strings.ContainsAny(f, `,"`) {
			fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
	}
	return strings.Join(fields, ",")
}

// The kinds of mount.
const (
	mountBind   = "bind"
	mountTmpfs  = "tmpfs" // an empty, read-only place that covers something
	mountVolume = "volume"
)

// tmpfs is one --tmpfs: a writable directory in memory.
type tmpfs struct {
	target string
	size   int64 // bytes
}

// text returns the value of a --tmpfs. The user owns the directory, because runtimes
// ignore a requested mode, and use the mode of the image's directory at that path.
func (c *container) text(t tmpfs) string {
	owner := ""
	uid, gid, numbers := strings.Cut(c.user, ":")
	switch {
	case c.kind == podman:
		owner = ",U"
	case numbers && isNumber(uid) && isNumber(gid):
		owner = ",uid=" + uid + ",gid=" + gid
	}
	return fmt.Sprintf("%s:rw,exec,nosuid,nodev,size=%d,mode=1777%s", t.target, t.size, owner)
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// says reports whether the user's own arguments contain one of these flags, with two
// dashes, or with one dash if the flag is one letter.
func (c *container) says(flags ...string) bool {
	return slices.ContainsFunc(c.extra, func(arg string) bool {
		flag, _, _ := strings.Cut(arg, "=")
		if len(flag) > 2 && flag[0] == '-' && flag[1] != '-' {
			flag = flag[:2] // -v/:/x
		}
		return flag != "" && flag[0] == '-' && slices.Contains(flags, strings.TrimLeft(flag, "-"))
	})
}

// loosened reports whether the user's own arguments may have undone the effect of one of
// these flags.
func (c *container) loosened(flags ...string) bool {
	return c.says(flags...) || c.says("privileged")
}
