// Command hog uses what it is told to use, and says how far it came.
//
//	hog memory MIB | files MIB FILE | forks N | spin MILLISECONDS
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] == "wait" {
		for { // until it is killed
			_ = syscall.Pause()
		}
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	switch os.Args[1] {
	case "memory":
		memory(n)
	case "files":
		files(n, os.Args[3])
	case "forks":
		forks(n)
	case "spin":
		for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end); {
		}
	}
}

// memory touches every page of what it asks for.
func memory(mib int) {
	var held [][]byte
	for range mib {
		block := make([]byte, 1<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		held = append(held, block)
	}
	fmt.Println("touched", len(held), "MiB")
}

func files(mib int, name string) {
	f, err := os.Create(name)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	block := make([]byte, 1<<20)
	for i := range mib {
		if _, err := f.Write(block); err != nil {
			fmt.Println("wrote", i, "MiB:", err)
			os.Exit(1)
		}
	}
	fmt.Println("wrote", mib, "MiB")
}

func forks(n int) {
	started := 0
	var failed error
	for range n {
		c := exec.Command("/proc/self/exe", "wait", "0")
		if failed = c.Start(); failed != nil {
			break
		}
		started++
	}
	fmt.Println("started", started, failed)
	if failed != nil {
		os.Exit(1)
	}
}
