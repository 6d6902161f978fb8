package paddock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
)

// workspace makes a directory for an example.
func workspace() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "paddock-example-")
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}

func ExampleOpen() {
	dir, remove := workspace()
	defer remove()
	ctx := context.Background()

	spec := paddock.Spec{Workspace: paddock.Workspace{Source: dir}}
	sandbox, err := paddock.Open(ctx, spec, paddock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sandbox.Close()

	out, err := sandbox.Command(ctx, "sh", "-c", "pwd; echo made inside > file").Output()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(out))

	made, err := os.ReadFile(dir + "/file")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(made))
	// Output:
	// /workspace
	// made inside
}

func ExampleCmd_Run() {
	dir, remove := workspace()
	defer remove()
	ctx := context.Background()

	sandbox, err := paddock.Open(ctx, paddock.Spec{Workspace: paddock.Workspace{Source: dir}}, paddock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sandbox.Close()

	cmd := sandbox.Command(ctx, "tr", "a-z", "A-Z")
	cmd.Stdin = strings.NewReader("through the wall\n")
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cmd.Result().ExitCode)
	// Output:
	// THROUGH THE WALL
	// 0
}

func ExampleExitError() {
	dir, remove := workspace()
	defer remove()
	ctx := context.Background()

	sandbox, err := paddock.Open(ctx, paddock.Spec{Workspace: paddock.Workspace{Source: dir}}, paddock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sandbox.Close()

	_, err = sandbox.Command(ctx, "sh", "-c", "echo no luck >&2; exit 3").Output()
	var exit *paddock.ExitError
	if errors.As(err, &exit) {
		fmt.Printf("%v, and said %q\n", exit, exit.Stderr)
	}

	err = sandbox.Command(ctx, "no-such-command").Run()
	fmt.Println(errors.Is(err, paddock.ErrNotFound))
	// Output:
	// exit status 3, and said "no luck\n"
	// true
}

func ExampleCmd_timeout() {
	dir, remove := workspace()
	defer remove()
	ctx := context.Background()

	sandbox, err := paddock.Open(ctx, paddock.Spec{Workspace: paddock.Workspace{Source: dir}}, paddock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sandbox.Close()

	cmd := sandbox.Command(ctx, "sh", "-c", "setsid sleep 1000 & sleep 1000")
	cmd.Timeout = 200 * time.Millisecond
	err = cmd.Run()
	fmt.Println(errors.Is(err, paddock.ErrTimeout), cmd.Result().DeathProved)
	// Output:
	// true true
}
