package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// roles by name.
var roles map[string]func(arg string) int

func init() {
	roles = map[string]func(string) int{
		"wait": waitRole, "tree": treeRole, "echo": echoRole, "eat": eatRole, "fork": forkRole, "spin": spinRole, "make": makeRole, "cover": cover,
	}
}

// waitRole says its pid and waits for the end of its input.
func waitRole(string) int {
	fmt.Println(os.Getpid())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// treeRole starts a process in its own session, which starts another, and so on;
// then all wait for ever. Each says its pid.
func treeRole(arg string) int {
	left, _ := strconv.Atoi(arg)
	fmt.Println(os.Getpid())
	if left > 1 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{roleEnv + "=tree " + strconv.Itoa(left-1)}
		cmd.Stdout = os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			return 1
		}
	}
	for {
		_ = unix.Pause()
	}
}

// echoRole answers each line of its input.
func echoRole(string) int {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Println(in.Text())
	}
	return 0
}

// eatRole touches as many MiB of memory as each line of its input says, and
// says so.
func eatRole(string) int {
	var eaten [][]byte
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		n, _ := strconv.Atoi(in.Text())
		for range n {
			mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			if err != nil {
				fmt.Println(err)
				return 1
			}
			for i := 0; i < len(mem); i += os.Getpagesize() {
				mem[i] = 1
			}
			eaten = append(eaten, mem)
		}
		fmt.Println(len(eaten))
	}
	return 0
}

// forkRole starts waiting processes until it cannot, and says how many there were and why.
func forkRole(string) int {
	for n := 0; ; n++ {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{roleEnv + "=tree 1"}
		err := cmd.Start()
		var errno syscall.Errno
		if errors.As(err, &errno) {
			fmt.Println(n, errno == unix.EAGAIN)
			return 0
		}
	}
}

// spinRole uses a processor for as long as its argument says, by the clock, and
// says how much of it the kernel let it have.
func spinRole(arg string) int {
	d, _ := time.ParseDuration(arg)
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
	var use unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &use)
	fmt.Println(time.Duration(use.Utime.Nano() + use.Stime.Nano()).Milliseconds())
	return 0
}

// makeRole makes and removes groups in the one with the given directory,
// while others do so and sweep, until its input ends. It says that it has begun,
// and how many there were.
func makeRole(dir string) int {
	g, err := Open(dir)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	made := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	for {
		select {
		case <-done:
			fmt.Println(made)
			return 0
		default:
		}
		if err := makeOne(g, fmt.Sprintf("made-%d-%d", os.Getpid(), made)); err != nil {
			fmt.Println(err)
			return 1
		}
		if made++; made == 1 {
			fmt.Println("begun")
		}
	}
}

func makeOne(g *Group, name string) error {
	child, err := g.Create(name)
	if err != nil {
		return err
	}
	defer child.Close()
	// Would fail if a sweep had removed it in spite of the handle.
	inner, err := child.Create("inner")
	if err != nil {
		return err
	}
	return errors.Join(inner.Close(), child.Remove("inner"), g.Remove(name))
}
