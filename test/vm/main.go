// Command vm runs tests in virtual machines with kernels older than this
// host's: those of packages, and the guest agent as process 1.
//
//	make test-vm
//
// It prints events as "go test -json" does, which gotestsum shows.
// Each kernel that "make vm-deps" has unpacked gets its machines one after the
// other, beside those of the other kernels: one boots the agent and is spoken to
// from outside, over a virtio-serial port, and from inside, over vsock; the
// others run the test programs of the packages in suites.go as root.
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
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
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

// errFailed means that a test has failed. Like go test, vm then ends with 1 and prints no
// error: gotestsum runs the test again.
var errFailed = errors.New("a test failed")

func exitOn(err error) {
	if err != nil {
		if !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "vm:", err)
		}
		os.Exit(1)
	}
}

// onHost boots the machines and tells what comes of them.
func onHost() error {
	series := flag.String("kernel", "", "boot kernels of this `series` alone, as 6.1")
	only := flag.String("only", "", "run this `suite` alone: a package of suites.go, or process-1")
	run := flag.String("run", "", "run the tests alone that `match`")
	flag.StringVar(run, "test.run", "", "the same, as gotestsum runs a failed test again: with KERNEL: SUITE as the argument")
	limit := flag.Duration("timeout", 10*time.Minute, "how `long` one machine may live")
	cache := flag.String("cache", ".cache/vm", "where make vm-deps has put the kernels")
	flag.Parse()
	if name, suite, again := strings.Cut(flag.Arg(0), ": "); again {
		*series, *only = strings.TrimPrefix(name, "linux-"), suite
	}
	kernels, err := findKernels(*cache)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "paddock-vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := prepare(ctx, dir, kernels)
	if err != nil {
		return err
	}
	c.limit = *limit
	var running sync.WaitGroup
	for i, k := range kernels {
		c.order.Later = i > 0
		if *series == "" || k.series() == *series {
			c.kernel = k
			runs := plan(c, *only, *run)
			running.Go(func() { runKernel(ctx, runs) })
		}
	}
	running.Wait()
	if events.failed {
		return errFailed
	}
	return nil
}

// aside is what a machine takes of its time before and after its suites.
const aside = 15 * time.Second

// plan says which machines a kernel gets.
func plan(c machineConfig, only, run string) []machineConfig {
	var all []machineConfig
	if only == "" || only == process1 {
		c.mode, c.ports = modeAgent, []string{agentPort}
		all = append(all, c)
	}
	for _, suites := range machines {
		c.mode, c.ports, c.order = modeSuites, []string{suitesPort}, order{Run: run, Limit: c.limit - aside, Later: c.order.Later}
		for _, s := range suites {
			if only == s.pkg || only == "" && (!c.order.Later || s.later != everything) {
				c.order.Suites = append(c.order.Suites, s.pkg)
			}
		}
		if len(c.order.Suites) > 0 {
			all = append(all, c)
		}
	}
	return all
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
func runKernel(ctx context.Context, machines []machineConfig) {
	for _, c := range machines {
		if err := c.run(ctx); err != nil {
			p := c.packageOf("machine for " + c.mode)
			p.output(err.Error() + "\n")
			p.end(false)
		}
	}
}

func (c machineConfig) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	dir, err := os.MkdirTemp(filepath.Dir(c.root), "machine-")
	if err != nil {
		return err
	}
	c.dir = dir
	if c.mode == modeAgent {
		return runAgent(ctx, c)
	}
	return runSuites(ctx, c)
}
