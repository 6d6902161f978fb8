// Release makes what a release of Paddock consists of, from a commit of its tree: for each
// architecture an archive with the programs, the manual page and the completions, and an image;
// and a file with the checksums of all. "make release" runs it.
//
// The commit is packed as the module that a module proxy would serve, and the programs are
// installed from that module by "go install", so they are those that
//
//	CGO_ENABLED=0 go install -trimpath -ldflags='-s -w' github.com/paddock-dev/paddock/cmd/...@VERSION
//
// makes: they say which version they are, and programs of one version accept each other
// wherever they come from. The same commit and the same Go give the same bytes, in any
// directory, on any machine and at any time. Modules that the programs need must be in the
// module cache ("make modules"): nothing is fetched.
//
// It is a module of its own, outside of go.work, so that what it needs (a library that writes
// images) raises no version of what the product links.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// architectures are those that a release is for.
var architectures = []string{"amd64", "arm64"}

func main() {
	tree := flag.String("tree", "..", "the `DIRECTORY` of the tree, a clone of git's")
	out := flag.String("out", "../bin/release", "the `DIRECTORY` to write to, which is replaced")
	version := flag.String("version", "", "the `VERSION` (default: the tag of the commit, else what Go calls the commit)")
	proxy := flag.Bool("proxy", false, "write a module proxy with the version alone, and build nothing")
	flag.Parse()
	var err error
	switch {
	case flag.NArg() > 0:
		err = fmt.Errorf("unknown argument %q", flag.Arg(0))
	default:
		err = release(*tree, *out, *version, *proxy)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// release writes everything to a directory that takes the place of out.
func release(tree, out, version string, proxyOnly bool) error {
	c, err := commitOf(tree, version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return err
	}
	made, err := os.MkdirTemp(filepath.Dir(out), "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	if err := os.Chmod(made, 0o755); err != nil {
		return err
	}
	if proxyOnly {
		err = c.writeProxy(made)
	} else {
		err = c.write(made)
	}
	if err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	if err := os.Rename(made, out); err != nil {
		return err
	}
	fmt.Printf("%s of %s is in %s\n", c.version, c.revision[:12], out)
	return nil
}

// write writes the archives, the images and the checksums.
func (c *commit) write(dir string) error {
	work, err := os.MkdirTemp("", "paddock-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	built, err := c.build(work)
	if err != nil {
		return err
	}
	pages, err := c.pages(built)
	if err != nil {
		return err
	}
	for _, arch := range architectures {
		programs, err := built.programs(arch)
		if err != nil {
			return err
		}
		notices, err := built.notices(programs)
		if err != nil {
			return err
		}
		name := filepath.Join(dir, fmt.Sprintf("paddock-%s-linux-%s", c.version, arch))
		if err := c.writeArchive(name+".tar.gz", slices.Concat(programs, pages, notices)); err != nil {
			return err
		}
		if err := c.writeImage(name+"-image.tar", arch, slices.Concat(programs, notices)); err != nil {
			return err
		}
	}
	return writeSums(dir)
}

// writeSums writes the checksums of a directory's files, for sha256sum -c.
func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		_ = f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", hex.EncodeToString(h.Sum(nil)), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(lines.String()), 0o644)
}
