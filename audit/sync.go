package audit

import (
	"os"
	"sync"
)

// group lets many who wait for the disk wait once: whoever comes while one
// fsync runs shares the next.
type group struct {
	mu      sync.Mutex
	changed *sync.Cond
	asked   uint64 // tickets given out
	synced  uint64 // tickets whose records are on the disk
	failed  uint64 // tickets whose fsync failed with err
	err     error
	running bool
}

// sync returns when what was written to f before is on the disk. Another
// one's fsync of another file will do: files are synced before they are left.
func (g *group) sync(f *os.File) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = sync.NewCond(&g.mu)
	}
	g.asked++
	mine := g.asked
	for g.synced < mine {
		switch {
		case mine <= g.failed:
			return g.err // the kernel tells of a loss only once
		case g.running:
			g.changed.Wait()
		default:
			g.lead(f)
		}
	}
	return nil
}

// lead syncs for all who have asked so far.
func (g *group) lead(f *os.File) {
	g.running = true
	covers := g.asked
	g.mu.Unlock()
	err := f.Sync()
	g.mu.Lock()
	g.running = false
	if err == nil {
		g.synced = covers
	} else {
		g.failed, g.err = covers, err
	}
	g.changed.Broadcast()
}
