package confine

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BenchmarkFilter makes a filter's program.
func BenchmarkFilter(b *testing.B) {
	for b.Loop() {
		runtime.KeepAlive(filter(FilterCommands, FilterOptions{}))
	}
}

// BenchmarkCalls measures what the two filters that commands are behind cost a call:
// one that is always allowed, which the kernel knows from a table, and two
// whose arguments are looked at.
func BenchmarkCalls(b *testing.B) {
	path := []byte("/\x00")
	var stat unix.Stat_t
	at := unix.AT_FDCWD
	for _, c := range []struct {
		name string
		do   func() error
	}{
		{"getpid", func() error { return raw(unix.SYS_GETPID) }},
		{"stat", func() error {
			return raw(unix.SYS_NEWFSTATAT, uintptr(at), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&stat)), 0)
		}},
		{"open", func() error {
			fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		}},
		{"ioctl", func() error { _ = raw(unix.SYS_IOCTL, ^uintptr(0), unix.TCGETS); return nil }},
	} {
		b.Run(c.name+"/bare", func(b *testing.B) { repeat(b, c.do) })
		b.Run(c.name+"/filtered", func(b *testing.B) {
			done := make(chan error)
			go func() {
				runtime.LockOSThread() // the thread ends with the goroutine
				err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
				for _, name := range []string{FilterAgent, FilterCommands} {
					if err == nil {
						err = loadFilter(filter(name, FilterOptions{}), false)
					}
				}
				if err == nil {
					repeat(b, c.do)
				}
				done <- err
			}()
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		})
	}
}

func repeat(b *testing.B, do func() error) {
	for b.Loop() {
		if err := do(); err != nil {
			b.Error(err)
			return
		}
	}
}
