package agent

import (
	"runtime"
	"sync"

	"github.com/paddock-dev/paddock/wire"
)

// keepThreads starts threads ahead, n of them at most wire.MaxGuestThreads. The
// runtime never ends a thread that is idle, and ends the program where it needs
// one and cannot start it.
func keepThreads(n int) {
	var begun sync.WaitGroup
	end := make(chan struct{})
	for range min(n, wire.MaxGuestThreads) {
		begun.Add(1)
		go func() {
			runtime.LockOSThread() // so that each waits on a thread of its own
			defer runtime.UnlockOSThread()
			begun.Done()
			<-end
		}()
	}
	begun.Wait()
	close(end)
}
