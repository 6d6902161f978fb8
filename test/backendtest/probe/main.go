//go:build linux

// Probe is a program that the suite runs behind walls: a static one, so that
// it asks for nothing of what is there.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: probe WHAT VALUE")
	}
	value := args[1]
	switch args[0] {
	case "sleep": // until somebody ends it
		time.Sleep(time.Hour)
		return nil
	case "daemon": // leaves a process in a session of its own
		cmd := exec.Command("/proc/self/exe", "sleep", value)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	case "dial":
		conn, err := net.DialTimeout("tcp", value, 3*time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	case "unix":
		conn, err := net.Dial("unix", value)
		if err != nil {
			return err
		}
		return conn.Close()
	case "read": // a byte at least
		conn, err := net.DialTimeout("tcp", value, 3*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = io.ReadFull(conn, make([]byte, 1))
		return err
	case "echo":
		return echo(value)
	case "alloc":
		return alloc(value)
	case "fork":
		return fork(value)
	case "signal":
		pid, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		return syscall.Kill(pid, 0)
	case "look":
		return look()
	}
	return fmt.Errorf("probe: there is no %q", args[0])
}

// echo sends back what each connection brings, up to its end, and says first on which port.
func echo(address string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // without splice, which takes two descriptors more
			_ = conn.Close()
		}()
	}
}

// alloc takes so many bytes of memory and writes to all of them.
func alloc(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	all := make([]byte, n)
	for i := 0; i < n; i += 4096 {
		all[i] = 1
	}
	fmt.Println(len(all))
	return nil
}

// fork has so many children at a time, and says how many there were.
func fork(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	started := 0
	for started < n && exec.Command("/proc/self/exe", "sleep", "x").Start() == nil {
		started++
	}
	fmt.Println(started)
	return nil
}

// look reports whether a process has the argument that the first line of the
// input is.
func look() error {
	mark, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), strings.TrimSpace(mark)) {
			return nil
		}
	}
	return fmt.Errorf("no process of %d has it", len(files))
}
