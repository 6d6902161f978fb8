//go:build linux

package linux

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/policy"
)

// guardProtected makes the files of the workspace that the host executes or
// obeys read-only, also where another mount overlaps the workspace.
func (b *builder) guardProtected(open []string) error {
	if slices.Contains(open, "*") {
		return nil
	}
	ws := b.mounts[0]
	if ws.copied {
		return nil // the host's files are out of reach
	}
	b.guardGit(ws)
	protected := policy.Protections()
	for _, rel := range gitConfigPaths(ws.source) {
		protected = append(protected, policy.Protected{Path: rel, Why: "the repository's configuration names it"})
	}
	for _, p := range protected {
		file := filepath.Join(ws.source, p.Path)
		mounts := b.showingBelow(file)
		if slices.Contains(open, p.Path) || len(mounts) == 0 {
			continue
		}
		link, err := firstLink(ws.source, p.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			b.expect(p.Path)
		case err != nil:
			return fail("plan", "protect", p.Path, err, "")
		case link != "":
			return badSource(ws.field, ws.source, link+" is a symbolic link, so "+p.Path+" cannot be protected",
				"replace the link, or allow changes with --unprotect "+p.Path)
		default:
			b.protectAt(mounts, file, p.Why)
		}
	}
	return nil
}

// expect notes a path of the workspace that is not there to be protected, if
// commands can make it. It matters only together with the other paths.
func (b *builder) expect(rel string, with ...string) {
	p := planting{path: rel, with: with}
	ws := b.mounts[0].source
	if len(b.showingBelow(filepath.Join(ws, rel))) > 0 && !p.in(ws) {
		b.absent = append(b.absent, p)
	}
}

// planting is a path that commands may make, with those it needs to matter.
type planting struct {
	path string
	with []string
	was  string // its fingerprint at the start, where it could not be protected
}

// happened reports whether commands have made or changed it.
func (p planting) happened(dir string) bool {
	return p.in(dir) && (p.was == "" || p.was != fingerprint(filepath.Join(dir, p.path)))
}

// fingerprint tells whether a path, or anything at most 10,000 entries into
// it, was changed: no ordinary user can set the time that the kernel notes for
// a change. It is empty where there is nothing.
func fingerprint(path string) string {
	sum := fnv.New64a()
	seen := 0
	_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
		if seen++; seen > 10_000 {
			return fs.SkipAll
		}
		var st unix.Stat_t
		if err == nil && unix.Lstat(at, &st) == nil {
			fmt.Fprintln(sum, at, st.Ino, st.Ctim.Nano())
		}
		return nil
	})
	if !state.Exists(path) {
		return ""
	}
	return strconv.FormatUint(sum.Sum64(), 16)
}

// in reports whether a directory has all of it.
func (p planting) in(dir string) bool {
	return state.Exists(filepath.Join(dir, p.path)) &&
		!slices.ContainsFunc(p.with, func(other string) bool { return !state.Exists(filepath.Join(dir, other)) })
}

// guardGit protects what makes a ".git" the repository that it is.
func (b *builder) guardGit(ws userMount) {
	const commonDir = ".git/commondir"
	git, common := filepath.Join(ws.source, ".git"), filepath.Join(ws.source, commonDir)
	switch info, err := os.Lstat(git); {
	case err != nil: // each path below it is absent, and reported as such
	case info.Mode().IsRegular():
		b.protectAt(b.showingBelow(git), git, "git finds the repository through it")
	case state.Exists(common):
		b.protectAt(b.showingBelow(common), common, "git takes its whole configuration from where it leads")
	default:
		b.expect(commonDir)
	}
	for _, p := range policy.Plantings() {
		b.expect(p.Path, p.With...)
	}
}

// firstLink names the first component of a path that is a symbolic link.
func firstLink(root, rel string) (string, error) {
	at := ""
	for _, part := range strings.Split(rel, "/") {
		at = path.Join(at, part)
		info, err := os.Lstat(filepath.Join(root, at))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || reason(err) == "not a directory" {
				return "", fs.ErrNotExist
			}
			return "", err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return at, nil
		}
	}
	return "", nil
}
