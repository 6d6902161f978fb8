//go:build linux

package engines

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"strings"
)

// recipe is how an image is made.
type recipe struct {
	name    string
	shell   bool
	files   map[string]string
	changes []string
}

func images() []recipe {
	return []recipe{
		{name: Shell, shell: true},
		{name: Empty, files: map[string]string{"etc/empty": "\n"}},
		{name: Trap, shell: true, files: map[string]string{"bin/trap.sh": "#!/bin/sh\n>/trapped\nexec \"$@\"\n"},
			changes: []string{`ENTRYPOINT ["/bin/trap.sh"]`, "VOLUME /data", "USER 4321:4321", "ENV TRAPPED=yes"}},
	}
}

// archive is the image's root file system.
func (r recipe) archive() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	var err error
	add := func(h *tar.Header, content string) {
		h.Size = int64(len(content))
		if err == nil {
			err = w.WriteHeader(h)
		}
		if err == nil {
			_, err = w.Write([]byte(content))
		}
	}
	for _, dir := range []string{"bin/", "etc/", "proc/", "sys/", "dev/", "tmp/"} {
		add(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, "")
	}
	for name, content := range r.files {
		add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755}, content)
	}
	if r.shell {
		if err := addBusybox(add); err != nil {
			return nil, err
		}
	}
	if err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// addBusybox adds a static busybox by all its names.
func addBusybox(add func(*tar.Header, string)) error {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return &UnavailableError{"busybox is not installed here"}
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if bytes.Contains(program, []byte("/ld-linux")) || bytes.Contains(program, []byte("/ld-musl")) {
		return &UnavailableError{"the busybox here is not static"}
	}
	names, err := exec.Command(path, "--list").Output()
	if err != nil {
		return err
	}
	add(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, string(program))
	for _, name := range strings.Fields(string(names)) {
		if name != "busybox" {
			add(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox"}, "")
		}
	}
	return nil
}
