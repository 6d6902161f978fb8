package main

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// cpio writes an archive in the format that a kernel unpacks its first root
// from: "newc", of which owners are always root.
type cpio struct {
	w    *bufio.Writer
	has  map[string]bool
	next int // inode number
}

func newCpio(w io.Writer) *cpio {
	return &cpio{w: bufio.NewWriterSize(w, 1<<20), has: make(map[string]bool), next: 1}
}

const (
	typeDir  = 0o040000
	typeFile = 0o100000
	typeLink = 0o120000
)

// member writes one member after the directories that it is in. Of two with
// one name the first counts.
func (c *cpio) member(name string, mode, size int64, body io.Reader) error {
	if c.has[name] || name == "." {
		return nil
	}
	if err := c.dir(path.Dir(name)); err != nil {
		return err
	}
	c.has[name] = true
	return c.raw(name, mode, size, body)
}

func (c *cpio) raw(name string, mode, size int64, body io.Reader) error {
	header := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		c.next, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, len(name)+1, 0, name)
	c.next++
	if err := c.padded(int64(len(header)), strings.NewReader(header)); err != nil {
		return err
	}
	return c.padded(size, body)
}

// padded copies size bytes, and adds what makes a multiple of four of them.
func (c *cpio) padded(size int64, from io.Reader) error {
	if size == 0 {
		return nil
	}
	if _, err := io.CopyN(c.w, from, size); err != nil {
		return err
	}
	_, err := c.w.Write(make([]byte, (4-size%4)%4))
	return err
}

func (c *cpio) dir(name string) error { return c.member(name, typeDir|0o755, 0, nil) }

func (c *cpio) link(name, target string) error {
	return c.member(name, typeLink|0o777, int64(len(target)), strings.NewReader(target))
}

func (c *cpio) text(name, text string) error {
	return c.member(name, typeFile|0o644, int64(len(text)), strings.NewReader(text))
}

// file adds a file of the host's, under another name.
func (c *cpio) file(name, source string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return c.member(name, typeFile|int64(info.Mode().Perm()), info.Size(), f)
}

// tree adds what is below a directory, but for what leave says.
func (c *cpio) tree(name, source string, leave func(path string) bool) error {
	root := os.DirFS(source)
	return fs.WalkDir(root, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case leave(p) && d.IsDir():
			return fs.SkipDir
		case d.IsDir():
			return c.dir(path.Join(name, p))
		case d.Type().IsRegular() && !leave(p):
			return c.file(path.Join(name, p), path.Join(source, p))
		}
		return nil
	})
}

// close writes the end of the archive.
func (c *cpio) close() error {
	if err := c.raw("TRAILER!!!", 0, 0, nil); err != nil {
		return err
	}
	return c.w.Flush()
}
