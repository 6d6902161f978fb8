package docker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
)

// ours are the flags of "run" that Paddock needs to control a container, with the reason
// why users cannot give them.
var ours = map[string]string{
	"--name": "Paddock finds its containers by it", "--cidfile": "Paddock finds its containers by name",
	"--entrypoint": "the agent is what runs first", "--init": "the agent is process 1",
	"--interactive": "", "--tty": "the agent speaks through the pipe; commands get terminals inside",
	"--detach": "the container ends with its client",
	"--attach": "the agent speaks through standard input and output",
	"--rm":     "remove_container_on_exit says it", "--restart": "a container that has ended must stay ended",
	"--detach-keys": "the agent's bytes are not keys", "--sig-proxy": "", "--help": "nothing would run",
}

// harmless are the flags of "run" that weaken nothing that Paddock says of a container: what they
// set is inside, or can only be less than the engine gives, or is compared with what was asked for
// (verify). What is not here is in a sandbox's lost guarantees by name.
var harmless = map[string]bool{
	"--env": true, "--hostname": true, "--domainname": true, "--workdir": true, // what commands see
	"--ulimit": true,                       // the agent sets those of a spec itself
	"--memory": true, "--pids-limit": true, // compared, if a spec has a limit
	"--memory-reservation": true, "--cpu-shares": true, "--cpuset-cpus": true, "--cpuset-mems": true, "--blkio-weight": true,
	"--pull": true, "--quiet": true, "--no-healthcheck": true, // of the start
	"--stop-signal": true, "--stop-timeout": true, // the agent has ended all commands before
}

// long are the long names of the flags of one letter. Those of switches can be followed by others.
var (
	long = map[byte]string{'a': "--attach", 'c': "--cpu-shares", 'd': "--detach", 'e': "--env", 'h': "--hostname", 'i': "--interactive", 'l': "--label",
		'm': "--memory", 'P': "--publish-all", 'p': "--publish", 'q': "--quiet", 't': "--tty", 'u': "--user", 'v': "--volume", 'w': "--workdir"}
	switches = "diPqt"
)

// alone are the flags of "run" that take a value only behind "=".
var alone = map[string]bool{"--": true, "--detach": true, "--disable-content-trust": true, "--env-host": true, "--help": true, "--http-proxy": true,
	"--init": true, "--interactive": true, "--no-healthcheck": true, "--no-hostname": true, "--no-hosts": true, "--oom-kill-disable": true, "--passwd": true,
	"--privileged": true, "--publish-all": true, "--quiet": true, "--read-only": true, "--read-only-tmpfs": true, "--replace": true, "--rm": true, "--rmi": true,
	"--rootfs": true, "--sig-proxy": true, "--tls-verify": true, "--tty": true, "--unsetenv-all": true, "--use-api-socket": true}

// extraFlag is a flag in the user's own arguments.
type extraFlag struct {
	at    int    // which argument it is in
	name  string // "--volume", also for -v; as it is written if it is unknown
	value string // behind "=" or the letter, or the argument that follows
}

// flagsIn returns the flags in the user's own arguments, and the first argument that is neither a
// flag nor can be the value of one, -1 if there is none: the engine would take it for the image.
func flagsIn(extra []string) (flags []extraFlag, stray int) {
	stray = -1
	open := false // the flag before has no value yet
	for i, arg := range extra {
		if len(arg) < 2 || arg[0] != '-' {
			if open {
				flags[len(flags)-1].value = arg
			} else if stray < 0 {
				stray = i
			}
			open = false
			continue
		}
		if arg[1] == '-' {
			name, value, given := strings.Cut(arg, "=")
			flags = append(flags, extraFlag{i, name, value})
			open = !given && !alone[name]
			continue
		}
		letters := arg[1:]
		for at := range len(letters) {
			name := long[letters[at]]
			if name == "" {
				name = arg
			}
			rest := letters[at+1:]
			if !strings.Contains(switches, letters[at:at+1]) {
				flags = append(flags, extraFlag{i, name, strings.TrimPrefix(rest, "=")})
				open = rest == ""
				break
			}
			flags = append(flags, extraFlag{at: i, name: name})
			if open = false; strings.HasPrefix(rest, "=") {
				break
			}
		}
	}
	return flags, stray
}

// reserved refuses extra arguments that only Paddock may give.
func reserved(extra []string) error {
	refuse := func(i int, why string) error {
		return hostpath.Refuse("docker.extra_run_args["+strconv.Itoa(i)+"]", extra[i], why, "leave it out")
	}
	flags, stray := flagsIn(extra)
	for _, f := range flags {
		why, taken := ours[f.name]
		key, _, _ := strings.Cut(f.value, "=")
		switch {
		case f.name == "--":
			return refuse(f.at, "what follows would be the image")
		case f.name == "--label" && key == label:
			return refuse(f.at, "Paddock finds its containers by this label")
		case taken && why == "":
			return refuse(f.at, "Paddock gives it")
		case taken:
			return refuse(f.at, why)
		}
	}
	if stray >= 0 {
		return refuse(stray, "it is no flag, nor the value of one: the engine would take it for the image")
	}
	return nil
}

// unknown returns what each of the user's own arguments that is not known to be harmless may take
// away.
func unknown(extra []string) (lost []string) {
	flags, _ := flagsIn(extra)
	for _, f := range flags {
		if harmless[f.name] {
			continue
		}
		arg := f.name
		if f.value != "" {
			arg += "=" + f.value
		}
		if said := "what " + text.Prefix(text.Escape(arg), 100) + " changes is not known to be harmless (docker.extra_run_args)"; !slices.Contains(lost, said) {
			lost = append(lost, said)
		}
	}
	return lost
}
