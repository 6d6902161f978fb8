package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	modzip "golang.org/x/mod/zip"
)

// product is the path of the product's module.
const product = "github.com/paddock-dev/paddock"

// commit is what a release is made of.
type commit struct {
	tree     string // an absolute path
	revision string
	time     time.Time // in UTC
	version  string
}

// commitOf returns the commit that a clone is at. Without a version, it has that of its tag, or
// the one that Go gives to a commit without a tag.
func commitOf(tree, version string) (*commit, error) {
	tree, err := filepath.Abs(tree)
	if err != nil {
		return nil, err
	}
	c := &commit{tree: tree, version: version}
	described, err := c.git("log", "-1", "--format=%H %ct")
	if err != nil {
		return nil, err
	}
	revision, seconds, _ := strings.Cut(described, " ")
	when, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("cannot read the time of the commit: %w", err)
	}
	c.revision, c.time = revision, time.Unix(when, 0).UTC()
	if c.version == "" {
		if c.version, err = c.name(); err != nil {
			return nil, err
		}
	}
	if module.Check(product, c.version) != nil || module.CanonicalVersion(c.version) != c.version {
		return nil, fmt.Errorf("cannot use the version %q: must be one of the module's, such as v0.1.0", c.version)
	}
	return c, nil
}

// name returns the version that Go gives to the commit.
func (c *commit) name() (string, error) {
	here, err := c.git("tag", "--points-at", "HEAD", "--list", "v[0-9]*")
	if err != nil {
		return "", err
	}
	for tag := range strings.FieldsSeq(here) {
		if semver.IsValid(tag) {
			return tag, nil
		}
	}
	older, err := c.git("tag", "--merged", "HEAD", "--list", "v[0-9]*")
	if err != nil {
		return "", err
	}
	newest := ""
	for tag := range strings.FieldsSeq(older) {
		if semver.IsValid(tag) && semver.Compare(tag, newest) > 0 {
			newest = tag
		}
	}
	return module.PseudoVersion(semver.Major(newest), newest, c.time, c.revision[:12]), nil
}

// git runs git in the tree and returns what it prints, without the newline at its end.
func (c *commit) git(args ...string) (string, error) {
	out, err := c.gitOutput(args...)
	return strings.TrimSpace(string(out)), err
}

// gitOutput runs git in the tree and returns what it prints.
func (c *commit) gitOutput(args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = c.tree
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot ask git about %s: %w", c.tree, err)
	}
	return out, nil
}

// file returns a file of the commit.
func (c *commit) file(name string) ([]byte, error) { return c.gitOutput("show", c.revision+":"+name) }

// writeProxy writes the module as a module proxy serves it ("go help goproxy"), below a directory.
func (c *commit) writeProxy(dir string) error {
	dir = filepath.Join(dir, filepath.FromSlash(product))
	if err := os.MkdirAll(filepath.Join(dir, "@v"), 0o755); err != nil {
		return err
	}
	mod, err := c.file("go.mod")
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": c.version, "Time": c.time})
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"@latest": string(info), "@v/list": c.version + "\n",
		"@v/" + c.version + ".info": string(info), "@v/" + c.version + ".mod": string(mod),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, "@v", c.version+".zip"))
	if err != nil {
		return err
	}
	files, err := c.files()
	if err == nil {
		err = modzip.Create(f, module.Version{Path: product, Version: c.version}, files)
	}
	return errors.Join(err, f.Close())
}

// archived is a file of the commit, as a module's zip takes it.
type archived struct{ file *zip.File }

func (a archived) Path() string                 { return a.file.Name }
func (a archived) Lstat() (fs.FileInfo, error)  { return a.file.FileInfo(), nil }
func (a archived) Open() (io.ReadCloser, error) { return a.file.Open() }

// files returns the files of the commit as the go command reads them. Those of other modules
// are among them, which a module's zip leaves out.
func (c *commit) files() ([]modzip.File, error) {
	packed, err := c.gitOutput("-c", "core.autocrlf=input", "-c", "core.eol=lf", "archive", "--format=zip", c.revision)
	if err != nil {
		return nil, err
	}
	r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
	if err != nil {
		return nil, err
	}
	var files []modzip.File
	for _, f := range r.File {
		if !strings.HasSuffix(f.Name, "/") {
			files = append(files, archived{f})
		}
	}
	return files, nil
}
