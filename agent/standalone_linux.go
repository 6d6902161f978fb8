package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/internal/beneath"
)

// Config says how an agent that no backend started serves: in a virtual
// machine or a container, or as an ordinary process. It builds no walls.
type Config struct {
	// Listen is where to serve: unix:///PATH, …
	Listen string
	// Workspace is the directory that clients know as /workspace.
	Workspace string
	// ShellRoot, ServiceRoot and SecretRoot are where the agent keeps the
	// state of shells and services, and the secrets.
	ShellRoot, ServiceRoot, SecretRoot string
}

// Standalone serves until it is told to end. It returns the exit status.
func Standalone(c Config) int {
	a, err := newStandalone(c)
	if err != nil {
		return fail(err)
	}
	ln, err := listen(c.Listen)
	if err != nil {
		return fail(err)
	}
	a.serve(ln)
	return 0
}

func newStandalone(c Config) (*Agent, error) {
	if err := os.MkdirAll(c.Workspace, 0o755); err != nil {
		return nil, err
	}
	files, err := beneath.Open(c.Workspace)
	if err != nil {
		return nil, err
	}
	s, err := startBareSpawner()
	if err != nil {
		return nil, err
	}
	var state [2]beneath.Dir
	for i, dir := range []string{c.ShellRoot, c.ServiceRoot} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		if state[i], err = beneath.Open(dir); err != nil {
			return nil, err
		}
	}
	return &Agent{
		shellState:   state[0],
		serviceState: state[1],
		spawner:      s,
		reaper:       s.reaper,
		trees:        s.trees,
		env:          map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": "/root"},
		workspace:    c.Workspace,
		files:        files,
	}, nil
}

// startBareSpawner starts the spawner of an agent without walls: what it
// clones has the agent's own identity and namespaces, but for the mark.
func startBareSpawner() (*spawner, error) {
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot open /proc: %w", err)
	}
	ready := make(chan *spawner)
	go func() {
		runtime.LockOSThread() // never unlocked: it changes its namespaces
		s := &spawner{
			requests: make(chan spawnRequest),
			reaper:   newReaper(0),
			trees:    &trees{proc: proc},
			tid:      unix.Gettid(),
		}
		go s.reaper.run()
		ready <- s
		s.run()
	}()
	return <-ready, nil
}

func listen(address string) (net.Listener, error) {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok {
		return nil, errors.New("cannot listen on " + address + ": it is no address")
	}
	return net.Listen("unix", path)
}
