package docker

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
)

// inspected is what an engine says of a container.
type inspected struct {
	ID    string `json:"Id"`
	State struct {
		Running bool
		Pid     int
	}
	Mounts []struct {
		Type, Name, Source, Destination string
		RW                              bool
	}
	Config struct {
		User   string
		Env    []string
		Labels map[string]string
	}
	BoundingCaps  []string // podman: what is left
	EffectiveCaps []string
	HostConfig    struct {
		Privileged     bool
		CapAdd         []string
		CapDrop        []string
		SecurityOpt    []string
		NetworkMode    string
		ReadonlyRootfs bool
		PidsLimit      *int64
		Memory         int64
		MemorySwap     int64
		NanoCpus       int64
		CPUQuota       int64 `json:"CpuQuota"`
		CPUPeriod      int64 `json:"CpuPeriod"`
		IpcMode        string
		PidMode        string
		UTSMode        string
		UsernsMode     string
		CgroupnsMode   string
		CgroupMode     string // podman's word for it
		Tmpfs          map[string]string
		Devices        []json.RawMessage
		LogConfig      struct{ Type string }
	}
}

// inspect asks for a container by its name.
func (e *engine) inspect(ctx context.Context, name string) (*inspected, error) {
	text, err := e.ask(ctx, "container", "inspect", name)
	if err != nil {
		return nil, e.fail("look at the container", name, err)
	}
	var found []inspected
	if err := json.Unmarshal(text, &found); err != nil || len(found) != 1 {
		return nil, e.fail("look at the container", name, errors.New("the engine's answer is not one container"))
	}
	return &found[0], nil
}

// removalTime is how long an engine may take to remove what has ended, and
// removalPause what lies between two looks: to be told of it, every engine has
// other words.
const (
	removalTime  = 10 * time.Second
	removalPause = 20 * time.Millisecond
)

// gone reports whether a sandbox's container has ended: it is not there any more,
// or, if it is to be kept, it does not run. An engine removes by itself what ran
// with --rm, at the same time as somebody else asks it to; who asks second is
// told that, at once, and the container is in the list until it is done.
func (e *engine) gone(ctx context.Context, c *container) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, removalTime)
	defer cancel()
	for {
		listed, err := e.listed(ctx, c)
		if err != nil || !listed {
			return !listed && err == nil, err
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(removalPause):
		}
	}
}

// listed reports whether the engine has the container, or runs one that is kept.
func (e *engine) listed(ctx context.Context, c *container) (bool, error) {
	args := []string{"ps", "--all", "--no-trunc", "--quiet", "--filter", "label=" + label + "=" + c.id}
	if c.keep {
		args = append(args[:1:1], args[2:]...)
	}
	text, err := e.ask(ctx, args...)
	if err != nil {
		return false, e.fail("ask for the container", c.name(), err)
	}
	return strings.TrimSpace(string(text)) != "", nil
}

// cleanup returns the arguments that end what a sandbox may have left on its
// engine. They succeed where there is nothing.
func (b *build) cleanup() [][]string {
	if b.keep {
		return [][]string{{"stop", "-t", "0", b.name()}}
	}
	all := [][]string{{"rm", "--force", "--volumes", b.name()}}
	if b.uploads {
		all = append(all, []string{"rm", "--force", b.loader()}, []string{"volume", "rm", "--force", b.name()})
	}
	return all
}
