//go:build linux

package codex

import (
	"os"
	"path/filepath"
)

// home are the private directories of one sandbox, or of one look at the CLI.
// The CLI refuses to keep its helpers below the directory for temporary files,
// so neither lies inside the other.
type home struct {
	base string
	// dir is CODEX_HOME: settings (there are none) and helpers of the CLI.
	dir string
	// shared is the CLI's directory for temporary files.
	shared string
	// scratch is the commands' directory for temporary files, and their HOME.
	scratch string
	// outside is a directory that the caller can write and commands must not.
	outside string
}

// newHome makes the directories below an empty directory of this user alone.
func newHome(base string) (home, error) {
	h := home{
		base: base, dir: filepath.Join(base, "codex"), shared: filepath.Join(base, "cli-tmp"),
		scratch: filepath.Join(base, "tmp"), outside: filepath.Join(base, "outside"),
	}
	for _, dir := range []string{h.dir, h.shared, h.scratch, h.outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return home{}, err
		}
	}
	return h, nil
}

// lookHome is one for a look at the CLI; the function removes it.
func lookHome() (home, func(), error) {
	base, err := os.MkdirTemp("", "paddock-codex-")
	if err != nil {
		return home{}, nil, err
	}
	h, err := newHome(base)
	if err != nil {
		_ = os.RemoveAll(base)
		return home{}, nil, err
	}
	return h, func() { _ = os.RemoveAll(base) }, nil
}
