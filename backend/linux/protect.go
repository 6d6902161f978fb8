//go:build linux

package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/paddock-dev/paddock/backend/hostpath"
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
	for _, rel := range hostpath.GitConfigPaths(ws.source) {
		protected = append(protected, policy.Protected{Path: rel, Why: "the repository's configuration names it"})
	}
	for _, p := range protected {
		file := filepath.Join(ws.source, p.Path)
		mounts := b.showingBelow(file)
		if slices.Contains(open, p.Path) || len(mounts) == 0 {
			continue
		}
		link, err := hostpath.FirstLink(ws.source, p.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			// made by commands, it is told at the end
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

// guardGit protects what makes a ".git" the repository that it is.
func (b *builder) guardGit(ws userMount) {
	const commonDir = ".git/commondir"
	git, common := filepath.Join(ws.source, ".git"), filepath.Join(ws.source, commonDir)
	switch info, err := os.Lstat(git); {
	case err != nil: // what is made of it is told at the end
	case info.Mode().IsRegular():
		b.protectAt(b.showingBelow(git), git, "git finds the repository through it")
	case state.Exists(common):
		b.protectAt(b.showingBelow(common), common, "git takes its whole configuration from where it leads")
	}
}
