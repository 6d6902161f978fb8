package clone

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// BesideLeader runs f on a new goroutine, which is locked to another thread than the process's
// leader and ends with that. So f can change the thread's identity, namespaces and confinement for
// good: what others read of this process, as in /proc/self, is the leader's. And if a signal goes
// to many processes at once, by kill(-1) for example, Landlock checks the domains of their leaders.
func BesideLeader(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		began := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(began)
			f()
		}()
		<-began
		runtime.UnlockOSThread()
	}()
}
