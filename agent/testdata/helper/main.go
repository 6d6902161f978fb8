// Helper is what tests run inside a sandbox where a shell cannot do it.
//
//	helper wait MARK       waits for ever
//	helper deaf MARK       the same: it ignores every signal it can, holds no
//	                       descriptor, and makes the file "ready" first
//	helper threads MARK    the same, in a process whose main thread has exited
//	helper forge           sends forged signals to pid 1
//	helper throttle        puts limits and priorities on pid 1
//	helper shed PROGRAM …  lowers what the agent brands a tree with, then executes
//	helper alloc MIB       touches so much memory
//	helper echo            serves a port of the loopback
//	helper descriptors     lists the descriptors that it was started with
//	helper watch           makes inotify instances until it gets no more, prints how
//	                       many, and keeps them until its input ends
//	helper intrude PID OUT writes to the file OUT what of a shell that waits for
//	                       its next line it could open, and then answers for it
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// The main goroutine keeps the main thread, which "threads" is about.
func init() { runtime.LockOSThread() }

func main() {
	switch os.Args[1] {
	case "wait":
		forever()
	case "deaf":
		deaf()
	case "threads":
		go forever()
		go ready()
		syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	case "forge":
		forge()
	case "throttle":
		throttle()
	case "shed":
		shed()
	case "alloc":
		alloc()
	case "echo":
		echo()
	case "descriptors":
		descriptors()
	case "watch":
		watch()
	case "intrude":
		intrude("/proc/"+os.Args[2], os.Args[3])
	}
}

func forever() {
	for {
		time.Sleep(time.Hour)
	}
}

// ready uses no os.File: that would start the runtime's poller, which does not
// survive the loss of its descriptor.
func ready() {
	fd, err := syscall.Open("ready", syscall.O_CREAT|syscall.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_ = syscall.Close(fd)
}

func deaf() {
	for sig := syscall.Signal(1); sig < 65; sig++ {
		signal.Ignore(sig)
	}
	ready()
	for fd := range 64 {
		_ = syscall.Close(fd)
	}
	for {
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
	}
}

// sysTgsigqueueinfo is rt_tgsigqueueinfo(2).
var sysTgsigqueueinfo = map[string]uintptr{"amd64": 297, "arm64": 240}[runtime.GOARCH]

// forge sends every signal to pid 1 with the code of a queued one, which a
// process may claim for any signal.
func forge() {
	for sig := uintptr(1); sig <= 64; sig++ {
		info := struct {
			signo, errno, code int32
			_                  [116]byte
		}{signo: int32(sig), code: -1}
		_, _, _ = syscall.Syscall(syscall.SYS_RT_SIGQUEUEINFO, 1, sig, uintptr(unsafe.Pointer(&info)))
		_, _, _ = syscall.Syscall6(sysTgsigqueueinfo, 1, 1, sig, uintptr(unsafe.Pointer(&info)), 0, 0)
	}
	fmt.Println("forged")
}

func throttle() {
	for _, resource := range []uintptr{syscall.RLIMIT_CPU, syscall.RLIMIT_NOFILE, syscall.RLIMIT_STACK, syscall.RLIMIT_AS} {
		limit := syscall.Rlimit{Cur: 1, Max: 1}
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, 1, resource, uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
		fmt.Println("prlimit", errno == 0)
	}
	mask := [128]byte{1}
	_, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 1, uintptr(len(mask)), uintptr(unsafe.Pointer(&mask)))
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 1, 19)
}

func shed() {
	const locks, rttime = 10, 15
	for _, resource := range []int{locks, rttime} {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
			panic(err)
		}
	}
	panic(syscall.Exec(os.Args[2], os.Args[2:], os.Environ()))
}

func alloc() {
	mib, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	block := make([]byte, mib<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	runtime.KeepAlive(block)
}

// descriptors reports all open ones but those of the runtime's own poller,
// which exist only once something has been polled.
func descriptors() {
	var open []string
	for fd := range 1024 {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0); errno == 0 {
			open = append(open, strconv.Itoa(fd))
		}
	}
	fmt.Println(strings.Join(open, " "))
}

func watch() {
	n := 0
	for {
		if _, err := syscall.InotifyInit1(syscall.IN_CLOEXEC); err != nil {
			fmt.Println(n, err)
			_, _ = os.Stdin.Read(make([]byte, 1))
			return
		}
		n++
	}
}
