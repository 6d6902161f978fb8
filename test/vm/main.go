// Command vm runs tests in virtual machines with kernels older than this
// host's: those of packages, and the guest agent as process 1.
//
//	go run ./internal/testsum -skips test/skips.txt -events go run ./test/vm
//
// It prints events as "go test -json" does, which testsum makes a summary of.
// Each kernel that "make vm-deps" has unpacked gets two machines: one runs the
// test programs of the packages in suites.go as root, one boots the agent and
// is spoken to from outside, over a virtio-serial port, and from inside, over vsock.
//
// The same program is the init of these machines (guest.go), what they have
// instead of go (guestgo.go), and the client inside (contract.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

const (
	// machineTimeout bounds the life of one machine.
	machineTimeout = 3 * time.Minute
	// suiteTimeout bounds one suite in it.
	suiteTimeout = 2 * time.Minute
)

func main() {
	switch {
	case os.Getpid() == 1:
		asInit()
		return
	case filepath.Base(os.Args[0]) == "go":
		exitOn(asGo(os.Args[1:]))
	case len(os.Args) == 2 && os.Args[1] == askWord:
		exitOn(askOverVsock())
	default:
		exitOn(onHost())
	}
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		os.Exit(1)
	}
}

// onHost boots the machines and tells what comes of them.
func onHost() error {
	series := flag.String("kernel", "", "boot kernels of this `series` alone, as 6.1")
	mode := flag.String("machine", "", "boot machines of this `kind` alone: agent or suites")
	cache := flag.String("cache", ".cache/vm", "where make vm-deps has put the kernels")
	flag.Parse()
	kernels, err := findKernels(*cache)
	if err != nil {
		return err
	}
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "paddock-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := prepare(ctx, dir, kernels)
	if err != nil {
		return err
	}
	var machines sync.WaitGroup
	for i, k := range kernels {
		if *series != "" && k.series() != *series {
			continue
		}
		c := c // each machine has its own
		c.kernel, c.mode = k, *mode
		machines.Go(func() { runKernel(ctx, c, filepath.Join(dir, fmt.Sprint(i))) })
	}
	machines.Wait()
	return nil
}

// prepare builds what the machines need.
func prepare(ctx context.Context, dir string, kernels []kernel) (machineConfig, error) {
	c := machineConfig{root: filepath.Join(dir, "root.cpio"), disk: filepath.Join(dir, "disk")}
	built := filepath.Join(dir, "built")
	if err := buildAll(ctx, built); err != nil {
		return c, err
	}
	if err := packRoot(ctx, c.root, built, kernels); err != nil {
		return c, err
	}
	return c, makeDisk(ctx, c.disk)
}

// makeDisk makes an empty file system.
func makeDisk(ctx context.Context, file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(1<<30), f.Close()); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "mkfs.ext4", "-q", "-F", "-O", "^has_journal", "-E", "root_owner=0:0", file).CombinedOutput(); err != nil {
		return fmt.Errorf("cannot make a disk: %w\n%s", err, out)
	}
	return nil
}

// runKernel runs the machines of one kernel, one after the other.
func runKernel(ctx context.Context, c machineConfig, dir string) {
	only := c.mode
	for mode, run := range map[string]func(context.Context, machineConfig) error{modeAgent: runAgent, modeSuites: runSuites} {
		if only != "" && only != mode {
			continue
		}
		c.mode, c.dir = mode, dir+mode
		err := os.Mkdir(c.dir, 0o700)
		if err == nil {
			err = withTimeout(ctx, c, run)
		}
		if err != nil {
			p := c.packageOf("machine for " + mode)
			p.output(err.Error() + "\n")
			p.end(false)
		}
	}
}

func withTimeout(ctx context.Context, c machineConfig, run func(context.Context, machineConfig) error) error {
	ctx, cancel := context.WithTimeout(ctx, machineTimeout)
	defer cancel()
	return run(ctx, c)
}
