package docker

import (
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

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

// loosened says whether the user's own words may have undone what one of these
// flags is about.
func (c *container) loosened(flags ...string) bool {
	return c.says(flags...) || c.says("privileged")
}
