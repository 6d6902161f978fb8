package docker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// container is everything that a container is run with, as data: args makes
// the command line of it, and verify compares it with what the engine made.
type container struct {
	id       string // of the sandbox
	image    string
	keep     bool   // it is not removed at its end
	network  string // "none", "host", or "" for the engine's default
	hostname string
	memory   int64 // bytes; 0: no bound
	swap     int64 // bytes beside memory
	cpus     string
	pids     uint64 // 0: no bound
	shm      int64  // bytes
	mounts   []mount
	tmpfs    []tmpfs
	dir      string // where the agent starts
	readOnly bool   // the root file system
	user     string
	extra    []string // the user's own words
	kind     string   // of engine, whose words it takes
	keepID   bool     // a rootless podman: the caller has the same id inside
}

// label is on every container and volume of Paddock, with the id of the
// sandbox as its value.
const label = "dev.paddock.sandbox"

// name is the container's.
func (c *container) name() string { return "paddock-" + c.id }

// args returns the arguments of the engine's command line up to the image; the
// command inside follows them. The parts that an embedder may know from other
// shells in containers stand in the order that is usual there; nothing here is
// secret, because everybody on the host can read it.
func (c *container) args() []string {
	args := []string{"run", "-i"}
	add := func(more ...string) { args = append(args, more...) }
	if !c.keep {
		add("--rm")
	}
	add("--name", c.name(), "--label", label+"="+c.id)
	if c.network != "" && !c.says("network", "net") {
		add("--network", c.network) // engines refuse two, unlike with other words
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
	if c.user != "" {
		add("--user", c.user)
	}
	add(c.extra...)
	return append(args, c.image)
}

// hardening returns what every container gets, unless the user's own words after
// it undo it.
func (c *container) hardening() []string {
	args := []string{
		"--cap-drop", "ALL",
		"--security-opt", "no-new-privileges",
		"--shm-size", itoa(c.shm),
		"--stop-timeout", "0", // the agent has ended commands before; nothing waits for it
		"--pull", "never", // a download is no part of a start
		"--entrypoint", "", // the image's would run first
	}
	if c.kind != nerdctl { // which has a private one always, and no log of what is attached
		args = append(args, "--ipc", "private", "--log-driver", "none") // output is nobody's but the caller's
	}
	if c.kind == podman && c.readOnly {
		args = append(args, "--read-only-tmpfs=false") // podman would add places without a bound
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
	why            string // for people
	file           fileID // what the source was when it was looked at
}

// String returns the mount as the engines read it: fields like those of a table
// whose columns are parted by commas, quoted where a path needs it.
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

// tmpfs is one --tmpfs: a writable place in memory.
type tmpfs struct {
	target string
	size   int64 // bytes
}

// text returns the place as the engine reads it. It belongs to the user, because
// runtimes give it the mode of what the image has there, whatever is asked for.
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

// ours are the words of "run" that Paddock's hold on a container depends on.
var ours = map[string]string{
	"--name": "Paddock finds its containers by it", "--cidfile": "Paddock finds its containers by name",
	"--entrypoint": "the agent is what runs first", "--init": "the agent is process 1",
	"-i": "", "--interactive": "", "-t": "the agent speaks through the pipe; commands get terminals inside", "--tty": "the agent speaks through the pipe; commands get terminals inside",
	"-d": "the container ends with its client", "--detach": "the container ends with its client",
	"-a": "the agent speaks through standard input and output", "--attach": "the agent speaks through standard input and output",
	"--rm": "remove_container_on_exit says it", "--restart": "a container that has ended stays ended",
	"--detach-keys": "the agent's bytes are no keys", "--sig-proxy": "", "--help": "nothing would run",
}

// reserved refuses extra arguments that Paddock itself gives.
func reserved(extra []string) error {
	for i, arg := range extra {
		flag, _, _ := strings.Cut(arg, "=")
		if why, taken := ours[flag]; taken {
			if why == "" {
				why = "Paddock gives it"
			}
			return hostpath.Refuse("docker.extra_run_args["+strconv.Itoa(i)+"]", arg, why, "leave it out")
		}
	}
	return nil
}

// says reports whether the user's own words give one of these flags, written
// with two dashes, or with one where they are one letter.
func (c *container) says(flags ...string) bool {
	return slices.ContainsFunc(c.extra, func(arg string) bool {
		flag, _, _ := strings.Cut(arg, "=")
		if len(flag) > 2 && flag[0] == '-' && flag[1] != '-' {
			flag = flag[:2] // -v/:/x
		}
		return flag != "" && flag[0] == '-' && slices.Contains(flags, strings.TrimLeft(flag, "-"))
	})
}

// loosened reports whether the user's own words may have undone what one of these
// flags is about.
func (c *container) loosened(flags ...string) bool {
	return c.says(flags...) || c.says("privileged")
}
