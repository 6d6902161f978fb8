//go:build linux

// The runtime would hold a file of the own control group open:
//go:debug containermaxprocs=0

// Command attacker tries to get out of a sandbox, one attack at a time:
//
//	attacker NAME [ARG]...
//
// It prints one line of JSON that says whether the attack succeeded, with the
// kernel's answer where it did not. The same program is its own control: run
// outside, where nothing is in the way, an attack must succeed, or its failure
// inside would prove nothing.
//
// An attack changes nothing that it does not change back, apart from what its
// arguments name.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// verdict is what an attack comes to.
type verdict struct {
	Succeeded bool   `json:"succeeded"`
	Errno     string `json:"errno,omitempty"`  // "EPERM", … where the kernel refused
	Detail    string `json:"detail,omitempty"` // what was reached, or why not
}

// attack returns what it reached, or the error that stopped it.
type attack func(args []string) (string, error)

// families hold the attacks by topic; each file of this package adds one.
var families []map[string]attack

func register(family map[string]attack) struct{} {
	families = append(families, family)
	return struct{}{}
}

func main() {
	if impostor() {
		return
	}
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: attacker NAME [ARG]...")
		os.Exit(2)
	}
	for _, family := range families {
		if a, ok := family[os.Args[1]]; ok {
			report(a(os.Args[2:]))
			return
		}
	}
	fmt.Fprintf(os.Stderr, "attacker: unknown attack %q\n", os.Args[1])
	os.Exit(2)
}

func report(detail string, err error) {
	v := verdict{Succeeded: err == nil, Detail: detail}
	if err != nil {
		v.Detail = err.Error()
		var errno syscall.Errno
		if errors.As(err, &errno) {
			v.Errno = unix.ErrnoName(errno)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(v)
}

// errno makes an error of the result of a raw system call.
func errno(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// call makes a raw system call.
func call(nr uintptr, a ...uintptr) (uintptr, error) {
	var args [6]uintptr
	copy(args[:], a)
	r, _, e := syscall.RawSyscall6(nr, args[0], args[1], args[2], args[3], args[4], args[5])
	return r, errno(e)
}

// only makes an attack of an operation that reaches nothing worth a word.
func only(do func(args []string) error) attack {
	return func(args []string) (string, error) { return "", do(args) }
}

// raw makes an attack of one system call.
func raw(nr uintptr, a ...uintptr) attack {
	return func([]string) (string, error) {
		_, err := call(nr, a...)
		return "", err
	}
}
