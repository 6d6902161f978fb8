//go:build linux

package linux

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// ownCopy is a file of the host of which commands have a copy.
type ownCopy struct {
	backend.Guard
	inside  string   // the copy, below copiesDir
	targets []string // where commands find it
}

// Bounds of what is read of the copies.
const (
	maxCopy  = 1 << 20 // bytes
	copyWait = 5 * time.Second
)

// openCopies opens the directory with the copies. The handle outlives all
// processes inside, so that nothing changes any more what is read by it.
func (s *sandbox) openCopies() error {
	if len(s.plan.copies) == 0 {
		return nil
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", s.pid, copiesDir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fail("verify", "open", copiesDir, err, "")
	}
	s.copies = os.NewFile(uintptr(fd), copiesDir)
	return nil
}

// readCopies reads what commands have made of their copies, once they have ended.
func (s *sandbox) readCopies() map[string]backend.Copy {
	if s.copies == nil {
		return nil
	}
	defer s.copies.Close()
	ctx, cancel := context.WithTimeout(context.Background(), copyWait)
	defer cancel()
	found := map[string]backend.Copy{}
	for _, c := range s.plan.copies {
		if c.Text != "" || !slices.ContainsFunc(c.targets, func(at string) bool { return slices.Contains(s.isolation.OwnCopies, at) }) {
			continue
		}
		rel := strings.TrimPrefix(c.inside, copiesDir+"/")
		text, err := hostpath.Read(ctx, fmt.Sprintf("/proc/self/fd/%d", s.copies.Fd()), path.Clean(rel), maxCopy)
		found[c.File] = backend.Copy{Text: text, Err: err}
	}
	return found
}
