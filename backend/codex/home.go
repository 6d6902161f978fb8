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

// home are the private directories of one sandbox, or of one probe of the CLI.
// The CLI refuses to keep its helpers below the directory for temporary files,
// so neither lies inside the other.
type home struct {
	base string
	// dir is CODEX_HOME, for the CLI's helpers. It has no settings.
	dir string
	// scratch is the commands' directory for temporary files, and their HOME.
	scratch string
	// outside is a directory that the caller can write and commands must not.
	outside string
	// shared is the CLI's directory for temporary files, the same for all
	// sandboxes of a state directory: the CLI counts in it how many of its
	// processes need the mount points that it makes in a workspace.
	shared string
	// path is the PATH of the CLI, without directories that commands could write.
	path string
}

// homesDir is the directory of the homes, in Paddock's state directory.
const homesDir = state.HomesDir

// newHome makes the directories below an empty directory that only this user can enter.
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

// placesIn returns the paths of the directories, without making them.
func placesIn(base, shared string) home {
	return home{base: base, dir: filepath.Join(base, "home"), scratch: filepath.Join(base, "tmp"), outside: filepath.Join(base, "outside"), shared: shared}
}

// stateHome makes a home in the state directory.
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

// lookHome makes a temporary home for a probe of the CLI, and returns a function that
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

// abandoned is the age from which a home that no sandbox's record names counts as left by
// a killed start. A start takes less time.
const abandoned = 10 * time.Minute

// sweepHomes removes the homes of starts that were killed before they wrote a record. All
// others are removed with their sandbox.
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
			_ = dir.RemoveAll(name) // follows no link
		}
	}
	return nil
}
