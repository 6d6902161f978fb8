package docker

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
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
	kind                     string // which decides the spelling of arguments
	version                  string
	arch                     string // as Go names it
	rootless                 bool
	remapped                 bool // ids inside are mapped to others on the host (userns-remap)
	local                    bool // it can use this host's files
	seccomp                  bool
	memory, swap, cpus, pids bool   // whether it can limit these
	cgroups                  string // "1", "2"
}

// info is an engine's answer to "info". docker and nerdctl use the names of the first
// part, podman those of the second.
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

// reach asks an engine for its kind, version and abilities.
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
		e.local = isLocal(host) // podman calls even a service of this host remote
	}
	return e, nil
}

// parseInfo reads the answer to "info".
func (c *client) parseInfo(text []byte) (*engine, error) {
	var i info
	if err := json.Unmarshal(text, &i); err != nil {
		return nil, errors.New("its answer to info cannot be understood: " + err.Error())
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

// endpoint returns the address at which a docker client looks for its engine, or "" if that
// is the default.
func (c *client) endpoint(ctx context.Context) string {
	if host := c.value("DOCKER_HOST"); host != "" {
		return host
	}
	host, err := c.ask(ctx, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
	if err != nil {
		return "" // the client does not know contexts
	}
	return strings.TrimSpace(string(host))
}

// isLocal reports whether an endpoint is on this host.
func isLocal(endpoint string) bool {
	return endpoint == "" || strings.HasPrefix(endpoint, "unix://") || strings.HasPrefix(endpoint, "/")
}

// goArch returns Go's name for an architecture as uname(1) names it.
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

// image is what an engine says about an image.
type image struct {
	ID           string `json:"Id"`
	Os           string
	Architecture string
	Config       struct {
		User    string
		Env     []string
		Volumes map[string]struct{}
	}
}

// image asks for an image, which the engine must have. A start does not download one,
// because that may take longer than the timeouts of the start. Users who want it
// anyway put "--pull" among the extra arguments.
func (e *engine) image(ctx context.Context, name string) (*image, error) {
	text, err := e.ask(ctx, "image", "inspect", name)
	if err != nil {
		var failed *answerError
		if errors.As(err, &failed) && slices.ContainsFunc([]string{"no such", "not known", "not found", "no image"},
			func(absent string) bool { return strings.Contains(strings.ToLower(failed.stderr), absent) }) {
			return nil, &backend.StartError{Stage: "engine", Op: "find the image", Object: name,
				Cause: "the engine does not have it", Hint: "get it first: " + e.name + " pull " + name}
		}
		return nil, e.fail("find the image", name, err)
	}
	var found []image
	if err := json.Unmarshal(text, &found); err != nil || len(found) != 1 {
		return nil, e.fail("find the image", name, errors.New("the engine's answer is not one image"))
	}
	i := &found[0]
	if i.Os != "" && i.Os != "linux" {
		return nil, e.fail("use the image", name, errors.New("it is made for "+i.Os))
	}
	return i, nil
}

// pullTime is how long a download may take.
const pullTime = 10 * time.Minute

// wantsPull reports whether the extra arguments ask for the download of a missing image.
func wantsPull(extra []string) bool {
	for i, arg := range extra {
		word, given := strings.CutPrefix(arg, "--pull=")
		if arg == "--pull" && i+1 < len(extra) {
			word, given = extra[i+1], true
		}
		if given && word != "never" && word != "false" {
			return true
		}
	}
	return false
}

// checkImage refuses a name that a command line would take for something else.
func checkImage(name string) error {
	if strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return hostpath.Refuse("docker.image", name, "it is not the name of an image", "")
	}
	return nil
}
