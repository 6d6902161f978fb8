package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// kernel is one that "make vm-deps" has unpacked.
type kernel struct {
	release string // as uname -r has it
	image   string
	modules string // the directory
}

// series is the first two numbers of the release.
func (k kernel) series() string {
	numbers := strings.SplitN(k.release, ".", 3)
	return strings.Join(numbers[:min(2, len(numbers))], ".")
}

// findKernels looks for what "make vm-deps" has left, oldest first.
func findKernels(dir string) ([]kernel, error) {
	images, _ := filepath.Glob(dir + "/*/boot/vmlinuz-*")
	if len(images) == 0 {
		return nil, errors.New("there is no kernel: run make vm-deps first, as root")
	}
	var all []kernel
	for _, image := range images {
		k := kernel{release: strings.TrimPrefix(filepath.Base(image), "vmlinuz-"), image: image}
		found, _ := filepath.Glob(dir + "/*/lib/modules/" + k.release)
		merged, _ := filepath.Glob(dir + "/*/usr/lib/modules/" + k.release)
		if found = append(found, merged...); len(found) == 0 {
			return nil, fmt.Errorf("kernel %s has no modules", k.release)
		}
		k.modules = found[0]
		all = append(all, k)
	}
	return all, nil
}

// wanted are the modules that the machine loads, each after what it needs.
// What a kernel has not as a module it has built in.
var wanted = []string{"virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_console",
	"virtio_blk", "overlay", "vsock", "vmw_vsock_virtio_transport_common", "vsock_loopback"}

// packModules adds the wanted modules of every kernel, below its release.
func packModules(c *cpio, kernels []kernel) error {
	for _, k := range kernels {
		files := make(map[string]string)
		err := filepath.WalkDir(k.modules, func(p string, d fs.DirEntry, err error) error {
			name, _, ok := strings.Cut(path.Base(p), ".ko")
			if ok && !d.IsDir() {
				files[name] = p
			}
			return err
		})
		if err != nil {
			return err
		}
		for _, name := range wanted {
			if file := files[name]; file != "" {
				if err := c.file(path.Join("modules", k.release, path.Base(file)), file); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
