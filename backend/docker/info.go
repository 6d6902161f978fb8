package docker

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
)

// The kinds of engine.
const (
	docker  = "docker"
	podman  = "podman"
	nerdctl = "nerdctl"
)

// engine is an engine that answers.
type engine struct {
	*client
	kind                     string // whose words it takes
	version                  string
	arch                     string // as Go names it
	rootless                 bool
	remapped                 bool // ids inside are others outside (userns-remap)
	local                    bool // it shares this host's files
	seccomp                  bool
	memory, swap, cpus, pids bool   // what it can bound
	cgroups                  string // "1", "2"
}

// info is what the engines' "info" says: docker and nerdctl use the names of
// the first part, podman those of the second.
type info struct {
	ServerVersion   string
	ServerErrors    []string
	Architecture    string
	OSType          string
	SecurityOptions []string
	MemoryLimit     bool
	SwapLimit       bool
	CPUCfsQuota     bool `json:"CpuCfsQuota"`
	PidsLimit       bool
	CgroupVersion   string
	Driver          string

	Host *struct {
		Arch              string   `json:"arch"`
		CgroupVersion     string   `json:"cgroupVersion"`
		CgroupControllers []string `json:"cgroupControllers"`
		ServiceIsRemote   bool     `json:"serviceIsRemote"`
		Security          struct {
			Rootless       bool `json:"rootless"`
			SeccompEnabled bool `json:"seccompEnabled"`
		} `json:"security"`
	} `json:"host"`
	Version struct{ Version string } `json:"version"`
}

// reach asks an engine what it is and what it can do.
func (c *client) reach(ctx context.Context) (*engine, error) {
	text, err := c.ask(ctx, "info", "--format", "{{json .}}")
	if err != nil {
		return nil, c.fail("reach the engine with", c.name, err)
	}
	e, err := c.parseInfo(text)
	if err != nil {
		return nil, c.fail("reach the engine with", c.name, err)
	}
	if e.kind != podman {
		e.local = isLocal(c.endpoint(ctx))
	} else if host := c.value("CONTAINER_HOST"); host != "" {
		e.local = isLocal(host) // a service of this host counts as remote for podman
	}
	return e, nil
}

// parseInfo reads the answer to "info".
func (c *client) parseInfo(text []byte) (*engine, error) {
	var i info
	if err := json.Unmarshal(text, &i); err != nil {
		return nil, errors.New("its answer is not what an engine says: " + err.Error())
	}
	if len(i.ServerErrors) > 0 {
		return nil, errors.New(lastWords([]byte(i.ServerErrors[0])))
	}
	if h := i.Host; h != nil {
		has := func(controller string) bool { return slices.Contains(h.CgroupControllers, controller) }
		return &engine{client: c, kind: podman, version: i.Version.Version, arch: goArch(h.Arch), rootless: h.Security.Rootless,
			local: !h.ServiceIsRemote, seccomp: h.Security.SeccompEnabled, cgroups: strings.TrimPrefix(h.CgroupVersion, "v"),
			memory: has("memory"), swap: has("memory"), cpus: has("cpu"), pids: has("pids")}, nil
	}
	if i.ServerVersion == "" {
		return nil, errors.New("the engine does not say its version")
	}
	if i.OSType != "" && i.OSType != "linux" {
		return nil, errors.New("the engine runs " + i.OSType + " containers, not linux ones")
	}
	option := func(word string) bool {
		return slices.ContainsFunc(i.SecurityOptions, func(o string) bool {
			name, _, _ := strings.Cut(o, ",")
			return name == "name="+word || name == word
		})
	}
	kind := docker
	if strings.Contains(c.name, nerdctl) {
		kind = nerdctl
	}
	return &engine{client: c, kind: kind, version: i.ServerVersion, arch: goArch(i.Architecture), rootless: option("rootless"),
		remapped: option("userns"), seccomp: option("seccomp"), cgroups: i.CgroupVersion,
		memory: i.MemoryLimit, swap: i.SwapLimit, cpus: i.CPUCfsQuota, pids: i.PidsLimit}, nil
}

// endpoint returns where a docker client looks for its engine, "" where that is its
// default.
func (c *client) endpoint(ctx context.Context) string {
	if host := c.value("DOCKER_HOST"); host != "" {
		return host
	}
	host, err := c.ask(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	if err != nil {
		return "" // a client without contexts
	}
	return strings.TrimSpace(string(host))
}

// isLocal reports whether an endpoint is on this host.
func isLocal(endpoint string) bool {
	return endpoint == "" || strings.HasPrefix(endpoint, "unix://") || strings.HasPrefix(endpoint, "/")
}

// goArch is Go's name for what uname(1) calls a machine.
func goArch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	case "":
		return runtime.GOARCH
	}
	return machine
}
