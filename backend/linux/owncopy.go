//go:build linux

package linux

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
)

// ownCopy is a file of the host of which commands have a copy.
type ownCopy struct {
	backend.Guard
	inside string // the copy, below copiesDir
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
// What is no regular file, or too large, is left out.
func (s *sandbox) readCopies() map[string][]byte {
	if s.copies == nil {
		return nil
	}
	defer s.copies.Close()
	ctx, cancel := context.WithTimeout(context.Background(), copyWait)
	defer cancel()
	found := map[string][]byte{}
	for _, c := range s.plan.copies {
		if c.Text != "" {
			continue
		}
		rel := strings.TrimPrefix(c.inside, copiesDir+"/")
		if text, err := hostpath.Read(ctx, fmt.Sprintf("/proc/self/fd/%d", s.copies.Fd()), path.Clean(rel), maxCopy); err == nil {
			found[c.File] = text
		}
	}
	return found
}
