package docker

import (
	"path/filepath"
	"strings"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// sockets are where engines listen on this host, free of symbolic links: who
// reaches one commands the engine.
func (e *engine) sockets() []string {
	paths := []string{"/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock", "/run/crio/crio.sock"}
	if dir := e.value("XDG_RUNTIME_DIR"); dir != "" {
		paths = append(paths, filepath.Join(dir, "docker.sock"), filepath.Join(dir, "podman", "podman.sock"), filepath.Join(dir, "containerd-rootless"))
	}
	for _, name := range []string{"DOCKER_HOST", "CONTAINER_HOST", "CONTAINERD_ADDRESS"} {
		if at := strings.TrimPrefix(e.value(name), "unix://"); filepath.IsAbs(at) {
			paths = append(paths, at)
		}
	}
	var there []string
	for _, p := range paths {
		if p = hostpath.Real(p); p != "" {
			there = append(there, p)
		}
	}
	return there
}
