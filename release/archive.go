package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// writeTar writes files and directories in order of their names. All are root's, and of the same
// time.
func writeTar(w io.Writer, when time.Time, files []file) error {
	files = slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: when, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
		h.Typeflag = tar.TypeReg
		if strings.HasSuffix(f.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(f.data); err != nil {
			return err
		}
	}
	return t.Close()
}

// withDirs returns files with the directories above them.
func withDirs(files []file) []file {
	all := slices.Clone(files)
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			if !slices.ContainsFunc(all, func(f file) bool { return f.name == dir+"/" }) {
				all = append(all, file{dir + "/", 0o755, nil})
			}
		}
	}
	return all
}

// writeArchive writes a tar.gz whose files are below a directory with its name. It has no
// directories: where one exists already, such as ~/.local/share, tar would give it their modes.
func (c *commit) writeArchive(path string, files []file) error {
	top := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	files = slices.Clone(files)
	for i := range files {
		files[i].name = top + "/" + files[i].name
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err == nil {
		err = writeTar(z, c.time, files)
	}
	return errors.Join(err, z.Close(), f.Close())
}

// writeImage writes an image that holds the programs and nothing else, as "docker load" and
// "podman load" take it. It runs paddock, and other images can copy the programs from it.
func (c *commit) writeImage(path, arch string, files []file) error {
	files = slices.Clone(files)
	for i := range files {
		files[i].name = "usr/local/" + files[i].name
	}
	var content bytes.Buffer
	if err := writeTar(&content, c.time, withDirs(append(files, file{"tmp/", 0o1777, nil}))); err != nil {
		return err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	})
	if err != nil {
		return err
	}
	created := v1.Time{Time: c.time}
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: created, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/usr/local/bin/paddock"},
			Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
			Labels: map[string]string{
				"org.opencontainers.image.licenses": "Apache-2.0",
				"org.opencontainers.image.revision": c.revision,
				"org.opencontainers.image.source":   "https://" + product,
				"org.opencontainers.image.version":  c.version,
			},
		},
	})
	if err != nil {
		return err
	}
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "make release"}})
	if err != nil {
		return err
	}
	tag, err := name.NewTag("paddock:" + c.version)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(path, tag, image)
}
