//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/confine"
)

// ociRuntime renders a plan as a bundle. The root is a directory that is made
// before the clock starts, with every mount point, link and file in it, where
// Paddock makes all of them in each start. These runtimes need root inside
// their user namespace, so that it maps a range of ids, and the command runs
// as 1000 of it.
func ociRuntime(name string, plan *confine.Plan, b *bench, flags ...string) isolator {
	why := notInstalled(name)
	if why == "" && os.Geteuid() != 0 {
		why = "the bundle needs root"
	}
	if why != "" {
		return isolator{name: name, absent: why}
	}
	bundle := filepath.Join(b.dir, name)
	if err := makeRoot(filepath.Join(bundle, "rootfs"), plan); err != nil {
		return isolator{name: name, absent: err.Error()}
	}
	start, err := threadFor(name)
	if err != nil {
		return isolator{name: name, absent: err.Error()}
	}
	config := ociConfig(plan)
	runs := 0
	return isolator{name: name, thread: start, maker: func(ctx context.Context, argv ...string) (*exec.Cmd, error) {
		config.Process.Args = argv
		data, err := json.Marshal(config)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(bundle, "config.json"), data, 0o644); err != nil {
			return nil, err
		}
		runs++
		id := fmt.Sprintf("paddock-bench-%d-%d", os.Getpid(), runs)
		args := slices.Concat([]string{"--root", filepath.Join(bundle, "state")}, flags, []string{"run", "--bundle", bundle, id})
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Stdin = strings.NewReader("") // as root they give what is there to the container's user, /dev/null too
		return cmd, nil
	}}
}

// makeRoot makes what the mounts are put on.
func makeRoot(root string, plan *confine.Plan) error {
	if err := os.MkdirAll(filepath.Join(root, "dev"), 0o755); err != nil {
		return err
	}
	for _, s := range plan.Setup {
		if s.Target == "" || s.Target == "/" || strings.HasPrefix(s.Target, "/dev/") || strings.HasPrefix(s.Target, "/proc/") {
			continue
		}
		if err := makeEntry(filepath.Join(root, s.Target), s); err != nil {
			return err
		}
	}
	return nil
}

func makeEntry(path string, s confine.Step) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch s.Do {
	case confine.OpSymlink:
		return os.Symlink(s.Source, path)
	case confine.OpFile:
		return os.WriteFile(path, s.Data, fs.FileMode(s.Mode))
	case confine.OpBind:
		if info, err := os.Stat(s.Source); err == nil && !info.IsDir() {
			return os.WriteFile(path, nil, 0o644)
		}
		return os.MkdirAll(path, 0o755)
	case confine.OpTmpfs, confine.OpMkdir, confine.OpProc:
		return os.MkdirAll(path, 0o755)
	default:
		return nil
	}
}

// The parts of the runtime specification that a bundle needs here.
type (
	ociSpec struct {
		Version  string     `json:"ociVersion"`
		Process  ociProcess `json:"process"`
		Root     ociRoot    `json:"root"`
		Hostname string     `json:"hostname"`
		Mounts   []ociMount `json:"mounts"`
		Linux    ociLinux   `json:"linux"`
	}
	ociProcess struct {
		User            ociUser  `json:"user"`
		Args            []string `json:"args"`
		Env             []string `json:"env"`
		Cwd             string   `json:"cwd"`
		NoNewPrivileges bool     `json:"noNewPrivileges"`
	}
	ociUser struct {
		UID uint32 `json:"uid"`
		GID uint32 `json:"gid"`
	}
	ociRoot struct {
		Path     string `json:"path"`
		ReadOnly bool   `json:"readonly"`
	}
	ociMount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options"`
	}
	ociLinux struct {
		Namespaces []ociNamespace `json:"namespaces"`
		UIDs       []ociIDMap     `json:"uidMappings"`
		GIDs       []ociIDMap     `json:"gidMappings"`
		Masked     []string       `json:"maskedPaths,omitempty"`
		ReadOnly   []string       `json:"readonlyPaths,omitempty"`
	}
	ociNamespace struct {
		Type string `json:"type"`
	}
	ociIDMap struct {
		Inside uint32 `json:"containerID"`
		Host   uint32 `json:"hostID"`
		Size   uint32 `json:"size"`
	}
)

func ociConfig(plan *confine.Plan) *ociSpec {
	ids := []ociIDMap{{Inside: 0, Host: 1 << 30, Size: 1 << 16}}
	spec := &ociSpec{
		Version: "1.0.2",
		Process: ociProcess{User: ociUser{1000, 1000}, Env: environ(plan), Cwd: plan.Workspace, NoNewPrivileges: true},
		Root:    ociRoot{Path: "rootfs", ReadOnly: true},
		Mounts:  []ociMount{{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "mode=0755"}}},
		Linux:   ociLinux{UIDs: ids, GIDs: ids},
	}
	for _, ns := range plan.Namespaces {
		name := string(ns)
		if ns == confine.NSNet {
			name = "network"
		}
		spec.Linux.Namespaces = append(spec.Linux.Namespaces, ociNamespace{name})
	}
	for _, s := range plan.Setup {
		switch {
		case s.Do == confine.OpHostname:
			spec.Hostname = s.Source
		case s.Do == confine.OpSelf && strings.HasPrefix(s.Target, "/proc/"):
			spec.Linux.ReadOnly = append(spec.Linux.ReadOnly, s.Target)
		case slices.Contains(s.Flags, confine.FlagExisting) && strings.HasPrefix(s.Target, "/proc/"):
			spec.Linux.Masked = append(spec.Linux.Masked, s.Target)
		case s.Do == confine.OpTmpfs && s.Target != "/":
			spec.Mounts = append(spec.Mounts, ociMount{s.Target, "tmpfs", "tmpfs",
				append(slices.Clone(s.Flags), fmt.Sprintf("mode=%04o", s.Mode), fmt.Sprintf("size=%d", s.Size))})
		case s.Do == confine.OpDevpts:
			spec.Mounts = append(spec.Mounts, ociMount{s.Target, "devpts", "devpts", append(slices.Clone(s.Flags), "newinstance", "ptmxmode=0666", "mode=0620")})
		case s.Do == confine.OpProc:
			spec.Mounts = append(spec.Mounts, ociMount{s.Target, "proc", "proc", s.Flags})
		case strings.HasPrefix(s.Target, "/dev/"): // they make the devices themselves
		case s.Do == confine.OpBind:
			spec.Mounts = append(spec.Mounts, ociMount{s.Target, "bind", s.Source, append(slices.DeleteFunc(slices.Clone(s.Flags), isOurs), "rbind")})
		}
	}
	return spec
}

// isOurs tells Paddock's own flags from the mount options that runtimes know.
func isOurs(flag string) bool { return flag == confine.FlagExisting || flag == confine.FlagResolved }
