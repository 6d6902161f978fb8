// Job works on many goroutines, on files, with a child process and over
// loopback, and prints what came of it.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"example.invalid/job/sum"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(3)
}

func run() error {
	dir, err := os.MkdirTemp("", "job-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			_ = os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Append(nil, i), 0o600)
		})
	}
	wg.Wait()
	total, err := sum.Files(dir)
	if err != nil {
		return err
	}
	said, err := exec.Command("sh", "-c", "echo child; exit 4").Output()
	fmt.Printf("files: %d, child: %q, %v\n", total, said, err)
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	fmt.Println("kernel:", unix.ByteSliceToString(name.Sysname[:]))
	return overLoopback()
}

func overLoopback() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer ln.Close()
	go func() {
		if conn, err := ln.Accept(); err == nil {
			_, _ = io.Copy(conn, io.LimitReader(conn, 1<<20))
			_ = conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	go func() { _, _ = conn.Write(make([]byte, 1<<20)) }()
	n, err := io.Copy(io.Discard, conn)
	fmt.Println("echoed:", n, err)
	return err
}
