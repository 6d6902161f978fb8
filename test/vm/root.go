package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// tools are the host's programs that tests run. Whatever else a shell expects
// is busybox.
const tools = "bash sh cat chmod chown cp cut date dd df echo env expr false grep head id kill ln ls mkdir mkfifo mknod " +
	"mktemp mv nproc od printenv printf ps pwd readlink realpath rm rmdir sed seq setpriv setsid sleep sort stat stty sync tail tar " +
	"tee test timeout touch tput tr true truncate tty uname uniq unshare wc xargs yes awk find git"

// packRoot writes the machine's first root: programs of the host with their
// libraries, the tree of the module, what was built, and modules of kernels.
func packRoot(ctx context.Context, file, built string, kernels []kernel) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	c := newCpio(f)
	for _, step := range []func(*cpio) error{
		packSystem,
		func(c *cpio) error { return packTools(ctx, c) },
		func(c *cpio) error { return packBuilt(c, built) },
		func(c *cpio) error { return packModules(c, kernels) },
		(*cpio).close,
	} {
		if err := step(c); err != nil {
			return fmt.Errorf("cannot pack the machine's root: %w", err)
		}
	}
	return f.Close()
}

// packSystem adds the directories and files that every system has.
func packSystem(c *cpio) error {
	for _, name := range []string{"usr/bin", "usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/share", "proc", "sys", "dev", "run", "tmp",
		"root", "home", "var/tmp", "mnt", "opt", "srv", "workspace"} {
		if err := c.dir(name); err != nil {
			return err
		}
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := c.link(name, "usr/"+strings.Replace(name, "sbin", "bin", 1)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"passwd":        "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n",
		"group":         "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
		"shadow":        "root:*:19000:0:99999:7:::\n",
		"hosts":         "127.0.0.1 localhost\n",
		"hostname":      "machine\n",
		"resolv.conf":   "",
		"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
		"profile":       "",
	} {
		if err := c.text("etc/"+name, text); err != nil {
			return err
		}
	}
	for _, name := range []string{"root/.profile", "var/lib/state/file"} { // for who looks there
		if err := c.text(name, "\n"); err != nil {
			return err
		}
	}
	return c.link("etc/mtab", "../proc/self/mounts")
}

var library = regexp.MustCompile(`(?m)^\s*(?:\S+ => )?(/\S+) \(0x`)

// packTools adds the host's programs, the libraries that they need, and
// busybox for all that is not there.
func packTools(ctx context.Context, c *cpio) error {
	for _, name := range strings.Fields(tools) {
		file, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if err := c.file("usr/bin/"+name, file); err != nil {
			return err
		}
		libraries, _ := exec.CommandContext(ctx, "ldd", file).Output() // a static program has none
		for _, match := range library.FindAllStringSubmatch(string(libraries), -1) {
			if err := c.file(path.Join("usr", strings.TrimPrefix(match[1], "/usr")), match[1]); err != nil {
				return err
			}
		}
	}
	for _, dir := range []string{"/lib/terminfo", "/usr/share/terminfo"} {
		if err := c.tree("usr/share/terminfo", dir, func(string) bool { return false }); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return packBusybox(ctx, c)
}

func packBusybox(ctx context.Context, c *cpio) error {
	file, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	applets, err := exec.CommandContext(ctx, file, "--list").Output()
	if err != nil {
		return err
	}
	if err := c.file("usr/bin/busybox", file); err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(applets)) {
		if err := c.link("usr/bin/"+name, "busybox"); err != nil {
			return err
		}
	}
	return nil
}

// packBuilt adds what was built, and the tree that tests look at.
func packBuilt(c *cpio, built string) error {
	for name, file := range map[string]string{"init": "init", "usr/bin/paddock": programs[0].file(), "usr/bin/paddock-agent": programs[1].file()} {
		if name != "init" {
			file = filepath.Join("programs", file)
		}
		if err := c.file(name, filepath.Join(built, file)); err != nil {
			return err
		}
	}
	if err := c.link("usr/bin/go", "/init"); err != nil {
		return err
	}
	for _, dir := range []string{"programs", "suites"} {
		if err := c.tree(dir, filepath.Join(built, dir), func(string) bool { return false }); err != nil {
			return err
		}
	}
	return c.tree("src", ".", func(p string) bool { return p == ".git" || p == ".cache" || p == "bin" })
}
