//go:build linux

// Package backends takes every backend through the suite of backendtest, and
// prints the grid.
package backends

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/codex"
	"github.com/paddock-dev/paddock/backend/docker"
	"github.com/paddock-dev/paddock/backend/host"
	"github.com/paddock-dev/paddock/backend/linux"
	"github.com/paddock-dev/paddock/backend/wrapper"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/test/backendtest"
)

func backends() []backend.Backend {
	return []backend.Backend{linux.New(), host.New(), docker.New(), codex.New(), wrapper.New()}
}

func TestMain(m *testing.M) { os.Exit(backendtest.Main(m, backends()...)) }

func TestLinux(t *testing.T) {
	c := backendtest.Config{Name: "linux", Backend: linux.New()}
	for _, f := range linux.New().Probe(context.Background()).Features {
		if f.Name == "user namespaces" && !f.OK {
			c.Missing = "user namespaces are forbidden here: " + f.Detail
		}
	}
	backendtest.Run(t, c)
}

func TestHost(t *testing.T) {
	backendtest.Run(t, backendtest.Config{Name: "host", Backend: host.New()})
}

func TestDocker(t *testing.T) { container(t, "docker", engines.Docker) }
func TestPodman(t *testing.T) { container(t, "podman", engines.Podman) }

func container(t *testing.T, name string, start func(context.Context) (*engines.Engine, error)) {
	t.Helper()
	c := backendtest.Config{Name: name, Backend: docker.New()}
	e, err := start(t.Context())
	switch none := (*engines.UnavailableError)(nil); {
	case errors.As(err, &none):
		c.Missing = none.Reason
	case err != nil:
		t.Fatal(err)
	default:
		t.Cleanup(e.Close)
		for _, variable := range e.Env {
			key, value, _ := strings.Cut(variable, "=")
			t.Setenv(key, value)
		}
		c.Spec.Docker = &policy.Docker{Binary: e.Binary, Image: engines.Shell, ExtraRunArgs: e.RunArgs}
		c.Left = func(ctx context.Context) ([]string, error) {
			out, err := e.Run(ctx, nil, "ps", "--all", "--quiet")
			return strings.Fields(out), err
		}
	}
	backendtest.Run(t, c)
}

// installedCodex is where test/engines/codex.sh puts it.
const installedCodex = "../../.cache/engines/codex/node_modules/.bin/codex"

func TestCodex(t *testing.T) {
	c := backendtest.Config{Name: "codex", Backend: codex.New()}
	path, err := filepath.Abs(installedCodex)
	if err == nil {
		_, err = exec.LookPath(path)
	}
	if err != nil {
		c.Missing = "codex is not installed here"
	}
	c.Spec.Codex = &policy.Codex{Binary: path}
	backendtest.Run(t, c)
}
