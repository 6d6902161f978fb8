package clone

import (
	"sync"

	"golang.org/x/sys/unix"
)

// stackSize is ample: the child's whole call chain is nosplit, and so limited
// to a few hundred bytes.
const stackSize = 16 << 10

// stacks that no child runs on, for the next one.
var stacks struct {
	mu   sync.Mutex
	free [][]byte
}

const keptStacks = 8

func takeStack() ([]byte, error) {
	stacks.mu.Lock()
	defer stacks.mu.Unlock()
	if n := len(stacks.free); n > 0 {
		stack := stacks.free[n-1]
		stacks.free = stacks.free[:n-1]
		return stack, nil
	}
	return unix.Mmap(-1, 0, stackSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

func giveStack(stack []byte) {
	stacks.mu.Lock()
	defer stacks.mu.Unlock()
	if len(stacks.free) < keptStacks {
		stacks.free = append(stacks.free, stack)
		return
	}
	_ = unix.Munmap(stack)
}
