//go:build linux

// Package engines gives tests and benchmarks container engines to use: a
// docker that answers already, or a daemon of their own; and a podman with
// storage of its own. What it starts lives in one temporary directory and one
// namespace of mounts, touches no other engine's containers and images, and is
// gone after Close.
//
// Images are made on the spot from a static busybox: nothing is downloaded.
// An engine that cannot be had is an *UnavailableError, with the reason.
package engines

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The images, made from a static busybox.
const (
	// Shell has busybox with all its names, and CMD and ENTRYPOINT empty.
	Shell = "paddock-test/shell:latest"
	// Empty has nothing but one file, and no shell.
	Empty = "paddock-test/empty:latest"
	// Trap has an ENTRYPOINT that makes the file /trapped, a VOLUME at /data,
	// and a user and an environment of its own.
	Trap = "paddock-test/trap:latest"
)

// UnavailableError says why there is no engine here.
type UnavailableError struct{ Reason string }

func (e *UnavailableError) Error() string { return "no engine: " + e.Reason }

// Engine is an engine with the images of this package in it.
type Engine struct {
	// Binary is the program to drive it with, Env what that needs beside the
	// environment (DOCKER_HOST=…), and RunArgs what "run" needs on this host.
	Binary  string
	Env     []string
	RunArgs []string
	// Daemon is the pid of the daemon that was started, 0 where none was.
	Daemon int

	dir    string
	daemon *exec.Cmd
	args   []string
	ended  chan struct{}
	own    []string // images to be removed at the end
	groups string   // the name of the control groups that are this engine's own
}

// startTime bounds the start of a daemon.
const startTime = 30 * time.Second

// Docker gives a docker: the one that answers, else a daemon of its own.
func Docker(ctx context.Context) (*Engine, error) {
	binary, err := exec.LookPath("docker")
	if err != nil {
		return nil, &UnavailableError{"docker is not installed here"}
	}
	e := &Engine{Binary: binary}
	if _, err := e.Run(ctx, nil, "info", "--format", "{{.ServerVersion}}"); err == nil {
		return e.filled(ctx)
	}
	return OwnDocker(ctx)
}

// OwnDocker starts a daemon whose life is the caller's alone.
func OwnDocker(ctx context.Context) (*Engine, error) {
	binary, err := exec.LookPath("docker")
	if err != nil {
		return nil, &UnavailableError{"docker is not installed here"}
	}
	dockerd, err := exec.LookPath("dockerd")
	switch {
	case err != nil:
		return nil, &UnavailableError{"dockerd is not installed here"}
	case os.Geteuid() != 0:
		return nil, &UnavailableError{"only root can start dockerd"}
	}
	e := &Engine{Binary: binary}
	if e.dir, err = os.MkdirTemp("", "pd-engine-"); err != nil {
		return nil, err
	}
	e.groups = filepath.Base(e.dir)
	host := "unix://" + e.dir + "/sock"
	e.Env = []string{"DOCKER_HOST=" + host, "DOCKER_CONFIG=" + e.dir + "/config"}
	within, err := e.hold()
	if err != nil {
		e.Close()
		return nil, err
	}
	e.args = append(within, dockerd, "--data-root", e.dir+"/data", "--exec-root", e.dir+"/exec", "--pidfile", e.dir+"/pid", "--host", host,
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--exec-opt", "native.cgroupdriver=cgroupfs",
		"--cgroup-parent", "/"+e.groups)
	if err := e.Restart(ctx); err != nil {
		e.Close()
		return nil, err
	}
	return e.filled(ctx)
}

// Restart starts the daemon, also after it was killed.
func (e *Engine) Restart(ctx context.Context) error {
	e.stopDaemon()
	e.forgetContainerd()
	log, err := os.Create(e.dir + "/log")
	if err != nil {
		return err
	}
	defer log.Close()
	e.daemon = exec.Command(e.args[0], e.args[1:]...)
	e.daemon.Stdout, e.daemon.Stderr = log, log
	e.daemon.SysProcAttr = ownSession()
	if err := e.daemon.Start(); err != nil {
		return err
	}
	e.Daemon = e.daemon.Process.Pid
	ended := make(chan struct{})
	e.ended = ended
	go func(c *exec.Cmd) { _ = c.Wait(); close(ended) }(e.daemon)
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for {
		if _, err := e.Run(ctx, nil, "info", "--format", "{{.ServerVersion}}"); err == nil {
			return nil
		}
		select {
		case <-ended:
			return &UnavailableError{"dockerd ends: " + e.lastWords()}
		case <-ctx.Done():
			return &UnavailableError{"dockerd does not answer within " + startTime.String() + ": " + e.lastWords()}
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// forgetContainerd removes the note of a containerd that has died with its
// daemon. Where nobody reaps it, the next daemon would take it for alive.
func (e *Engine) forgetContainerd() {
	note := e.dir + "/exec/containerd/containerd.pid"
	pid, err := os.ReadFile(note)
	if err != nil {
		return
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	if err != nil || strings.Contains(string(stat), ") Z ") {
		_ = os.Remove(note)
	}
}

func (e *Engine) lastWords() string {
	text, _ := os.ReadFile(e.dir + "/log")
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// Podman gives a podman with storage of its own, behind a script.
func Podman(ctx context.Context) (*Engine, error) {
	binary, err := exec.LookPath("podman")
	switch {
	case err != nil:
		return nil, &UnavailableError{"podman is not installed here"}
	case os.Geteuid() != 0:
		return nil, &UnavailableError{"podman is tested as root alone"}
	}
	e := &Engine{RunArgs: []string{"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"}}
	if e.dir, err = os.MkdirTemp("", "pd-engine-"); err != nil {
		return nil, err
	}
	e.groups = filepath.Base(e.dir)
	e.RunArgs = append(e.RunArgs, "--cgroup-parent", "/"+e.groups)
	runtime := ""
	if _, err := exec.LookPath("runc"); err == nil {
		runtime = " --runtime runc" // crun refuses hosts with both versions of control groups
	}
	within, err := e.hold()
	if err != nil {
		e.Close()
		return nil, err
	}
	script := fmt.Sprintf("#!/bin/sh\nexec %s %s --root %s/root --runroot %s/run --tmpdir %s/tmp --cgroup-manager cgroupfs --events-backend none%s \"$@\"\n",
		strings.Join(within, " "), binary, e.dir, e.dir, e.dir, runtime)
	e.Binary = e.dir + "/podman"
	if err := os.WriteFile(e.Binary, []byte(script), 0o700); err != nil {
		return nil, err
	}
	if _, err := e.Run(ctx, nil, "info"); err != nil {
		e.Close()
		return nil, &UnavailableError{err.Error()}
	}
	return e.filled(ctx)
}

// hold starts a process that has mounts of its own, and returns the words of a command
// that runs another among them. What an engine mounts on the host would be in every
// sandbox that starts meanwhile, and a wall that remounts what it finds may miss it.
func (e *Engine) hold() (within []string, err error) {
	holder := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", "echo; read line", e.dir+"/holder")
	if _, err = holder.StdinPipe(); err != nil { // it ends with this process, too
		return nil, err
	}
	ready, err := holder.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := holder.Start(); err != nil {
		return nil, err
	}
	_, err = ready.Read(make([]byte, 1))
	go func() { _ = holder.Wait() }() // until endRest kills it
	return []string{"nsenter", fmt.Sprintf("--mount=/proc/%d/ns/mnt", holder.Process.Pid), "--"}, err
}

// Run runs the engine's command line and returns what it prints.
func (e *Engine) Run(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, e.Binary, args...)
	cmd.Env = append(os.Environ(), e.Env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", filepath.Base(e.Binary), strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

// filled imports the images.
func (e *Engine) filled(ctx context.Context) (*Engine, error) {
	for _, image := range images() {
		tarball, err := image.archive()
		if err == nil {
			args := []string{"import"}
			for _, c := range image.changes {
				args = append(args, "--change", c)
			}
			_, err = e.Run(ctx, tarball, append(args, "-", image.name)...)
			e.own = append(e.own, image.name)
		}
		if err != nil {
			e.Close()
			var none *UnavailableError
			if errors.As(err, &none) {
				return nil, none
			}
			return nil, &UnavailableError{err.Error()}
		}
	}
	return e, nil
}
