//go:build linux

package codex

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/backend/state"
)

// home are the private directories of one sandbox, or of one look at the CLI.
// The CLI refuses to keep its helpers below the directory for temporary files,
// so neither lies inside the other.
type home struct {
	base string
	// dir is CODEX_HOME: settings (there are none) and helpers of the CLI.
	dir string
	// scratch is the commands' directory for temporary files, and their HOME.
	scratch string
	// outside is a directory that the caller can write and commands must not.
	outside string
	// shared is the CLI's directory for temporary files, the same for all
	// sandboxes of a state directory: there it counts who needs the mount
	// points that it makes in a workspace.
	shared string
	// path is the PATH of the CLI, without directories that commands could write.
	path string
}

// homesDir holds the homes, below Paddock's directory of state.
const homesDir = state.HomesDir

// newHome makes the directories below an empty directory of this user alone.
func newHome(base, shared string) (home, error) {
	h := placesIn(base, shared)
	if err := os.MkdirAll(h.shared, 0o700); err != nil {
		return home{}, err
	}
	for _, dir := range []string{h.dir, h.scratch, h.outside} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return home{}, err
		}
	}
	return h, nil
}

func placesIn(base, shared string) home {
	return home{base: base, dir: filepath.Join(base, "home"), scratch: filepath.Join(base, "tmp"), outside: filepath.Join(base, "outside"), shared: shared}
}

// stateHome makes one in the directory of state.
func stateHome(root string) (home, error) {
	dir := filepath.Join(root, homesDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return home{}, err
	}
	if err := sweepHomes(root); err != nil {
		return home{}, err
	}
	base, err := os.MkdirTemp(dir, "sandbox-")
	if err != nil {
		return home{}, err
	}
	h, err := newHome(base, filepath.Join(dir, "shared"))
	if err != nil {
		_ = os.RemoveAll(base)
	}
	return h, err
}

// lookHome is one for a look at the CLI that changes nothing; the function
// removes it.
func lookHome() (home, func(), error) {
	base, err := os.MkdirTemp("", "paddock-codex-")
	if err != nil {
		return home{}, nil, err
	}
	remove := func() { _ = os.RemoveAll(base) }
	h, err := newHome(base, filepath.Join(base, "shared"))
	if err != nil {
		remove()
	}
	return h, remove, err
}

// abandoned is how old a home must be that no sandbox's record names, to be one
// that a killed start has left: a start takes less.
const abandoned = 10 * time.Minute

// sweepHomes removes what starts have left that were killed before there was a
// record of them; all others are removed with their sandbox.
func sweepHomes(root string) error {
	dir, err := state.OpenDir(root, homesDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	var records []byte
	for _, name := range state.Names(dir) {
		info, err := dir.Lstat(name)
		if err != nil || !strings.HasPrefix(name, "sandbox-") || time.Since(info.ModTime()) < abandoned {
			continue
		}
		if records == nil {
			records = append(bytes.Join(state.Records(root), []byte{'\n'}), '\n')
		}
		if !bytes.Contains(records, []byte(filepath.Join(root, homesDir, name))) {
			_ = dir.RemoveAll(name) // which follows no link
		}
	}
	return nil
}
