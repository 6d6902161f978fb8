package origins

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// host is what all questions have in common: who could have written what.
type host struct {
	Request
	home   string           // free of links
	mounts []hostpath.Mount // of the sandbox
	dirs   []string         // those of PATH in which programs may be executed
	unsafe map[string]error // the others, and why not
}

func newHost(r Request) (*host, error) {
	h := &host{Request: r, home: hostpath.Real(r.Sandbox.Home), unsafe: map[string]error{}}
	mounts, err := hostpath.Mounts(r.Sandbox, policy.WorkspacePath)
	if err != nil {
		return nil, err
	}
	h.mounts = mounts
	for _, dir := range filepath.SplitList(r.Sandbox.Path) {
		if !filepath.IsAbs(dir) || slices.Contains(h.dirs, dir) {
			continue
		}
		if _, err := hostpath.SearchDir(r.Sandbox, dir); err != nil {
			h.unsafe[dir] = err
			continue
		}
		h.dirs = append(h.dirs, dir)
	}
	return h, nil
}

// env returns a variable of the caller's.
func (h *host) env(name string) string {
	value, _ := h.LookupEnv(name)
	return value
}

// find returns the path of the first program of these names in PATH that may be executed.
func (h *host) find(names ...string) (string, error) {
	for _, name := range names {
		for _, dir := range h.dirs {
			at := filepath.Join(dir, name)
			if info, err := os.Stat(at); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
				continue
			}
			return at, h.judge(at)
		}
	}
	for dir, err := range h.unsafe {
		if exists(filepath.Join(dir, names[0])) {
			return "", fmt.Errorf("%s must not be executed: %w", filepath.Join(dir, names[0]), err)
		}
	}
	return "", exec.ErrNotFound
}

// judge refuses a program that commands or other users could have written, and an installation
// below the home of which they could have written a part.
func (h *host) judge(at string) error {
	if err := hostpath.Program("allow_from", h.Sandbox.StateDir, at, at, h.mounts); err != nil {
		return err
	}
	free := hostpath.Real(at)
	if rel, ok := hostpath.Within(free, h.home); !ok || h.home == "" || strings.Count(rel, "/") < 2 {
		return nil
	}
	if _, err := hostpath.ToolDir(h.Sandbox, h.home, filepath.Dir(filepath.Dir(free))); err != nil {
		return fmt.Errorf("%s: %w", filepath.Dir(filepath.Dir(free)), err)
	}
	return nil
}

// trust refuses files of configuration that commands could have written. It reports whether any
// of them exists.
func (h *host) trust(files ...string) (some bool, err error) {
	for _, file := range files {
		if file == "" || !filepath.IsAbs(file) || !exists(file) {
			continue
		}
		some = true
		info, _ := os.Stat(file) // nil if it leads nowhere
		switch _, below := hostpath.Within(hostpath.Real(file), h.home); {
		case below && h.home != "" && info != nil && info.IsDir():
			_, err = hostpath.ToolDir(h.Sandbox, h.home, file)
		case below && h.home != "":
			_, err = hostpath.ToolFile(h.Sandbox, h.home, file)
		default:
			err = hostpath.Program("allow_from", h.Sandbox.StateDir, file, file, h.mounts) // which asks the same of any file
		}
		if err != nil {
			return true, fmt.Errorf("its configuration %s cannot be trusted: %s", file, hostpath.Reason(err))
		}
	}
	return some, nil
}

// config returns the caller's directory for configuration.
func (h *host) config() string {
	if dir := h.env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(h.Sandbox.Home, ".config")
}

// passed are the variables of the caller's that each tool gets.
var passed = []string{
	"HOME", "USER", "LOGNAME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS",
	"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR",
}

// environ returns the environment of a tool: of the caller's variables those that are passed to
// each tool, those of version managers and those with these names, where "PIP_*" is all that begin so.
func (h *host) environ(names ...string) []string {
	var env []string
	for _, v := range h.Environ {
		name, _, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(slices.Concat(passed, managers, names), func(p string) bool {
			prefix, all := strings.CutSuffix(p, "*")
			return name == p || all && strings.HasPrefix(name, prefix)
		}) {
			env = append(env, v)
		}
	}
	return append(env, "PATH="+strings.Join(h.dirs, ":"), "LC_ALL=C", "TERM=dumb", "NO_COLOR=1", "COLUMNS=4000")
}

// Bounds of what a tool prints.
const (
	maxOutput = 4 << 20
	maxErrors = 16 << 10
)

// bounded keeps the first bytes that are written to it.
type bounded struct {
	kept bytes.Buffer
	most int
	more bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - b.kept.Len()
	b.more = b.more || len(p) > room
	_, _ = b.kept.Write(p[:min(len(p), room)]) // a Buffer cannot fail
	return len(p), nil
}

// run executes a program in a directory, and returns what it printed. It kills all that the
// program has started when ctx ends.
func run(ctx context.Context, dir string, env []string, program string, args ...string) (out, errOut string, err error) {
	cmd := exec.CommandContext(ctx, program, args...)
	stdout, stderr := &bounded{most: maxOutput}, &bounded{most: maxErrors}
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, slices.Concat(env, []string{"PWD=" + dir}), stdout, stderr // env is shared
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	}
	switch {
	case ctx.Err() != nil:
		err = errors.New("it did not answer in time")
	case stdout.more:
		err = errors.New("its answer is too long")
	case err != nil:
		last := strings.TrimSpace(stderr.kept.String())
		last = last[strings.LastIndexByte(last, '\n')+1:]
		err = errors.New(strings.TrimSuffix(err.Error()+": "+text.Prefix(last, 300), ": "))
	}
	return stdout.kept.String(), stderr.kept.String(), err
}
