package spawn

import (
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// Start applies the plan to a new thread, from which commands are then cloned.
func Start(plan *confine.Plan, files []int) (*Spawner, []*confine.Error, *confine.Error) {
	type outcome struct {
		s       *Spawner
		skipped []*confine.Error
		err     *confine.Error
	}
	ready := make(chan outcome)
	build := setUp
	if len(plan.Namespaces) == 0 {
		build = setUpBare
	}
	clone.BesideLeader(func() { // the thread is confined for good
		s, skipped, err := build(plan, files)
		ready <- outcome{s, skipped, err}
		if err == nil {
			s.run()
		}
	})
	o := <-ready
	return o.s, o.skipped, o.err
}

// ShowsSelf reports whether /proc belongs to this process's pid namespace.
func ShowsSelf() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self == strconv.Itoa(os.Getpid())
}

// setUp applies the plan to the calling thread.
func setUp(plan *confine.Plan, fds []int) (*Spawner, []*confine.Error, *confine.Error) {
	files := map[string]int{}
	for i, name := range plan.Files {
		files[name] = fds[i]
	}
	// The agent's own proc has to be mounted while the host's proc can still be
	// seen: the kernel requires one to copy its masks from.
	proc, err := confine.DetachedProc()
	if err != nil {
		return nil, nil, procError(err)
	}
	var initPID int
	applier := confine.Applier{Files: files, Self: proc, Proc: func(path string) (func() error, error) {
		i, err := startInit(path)
		if err != nil {
			return nil, err
		}
		initPID = i.child.PID
		return i.await, nil
	}}
	if err := applier.Setup(plan); err != nil {
		return nil, nil, err
	}
	groups, failed := openGroups(&applier, plan)
	if failed != nil {
		return nil, nil, failed
	}
	if err := applier.Spawn(plan); err != nil {
		return nil, nil, err
	}
	s := &Spawner{
		requests: make(chan spawnRequest),
		Reaper:   newReaper(initPID),
		Trees:    &Trees{proc: proc, init: initPID},
		tid:      unix.Gettid(),
		groups:   groups,
		Gateway:  applier.Gateway,
		landlock: applier.Apart,
	}
	if err := s.watchDenials(&applier, plan); err != nil {
		return nil, nil, err
	}
	go s.Reaper.run()
	return s, applier.Skipped, nil
}

// setUpBare is setUp for a plan without namespaces.
func setUpBare(plan *confine.Plan, _ []int) (*Spawner, []*confine.Error, *confine.Error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, nil, &confine.Error{Stage: "setup", Op: "prctl", Object: "PR_SET_CHILD_SUBREAPER", Cause: err.Error()}
	}
	applier := confine.Applier{InPlace: true}
	if err := applier.Setup(plan); err != nil {
		return nil, nil, err
	}
	s, err := bareSpawner()
	if err != nil {
		return nil, nil, err
	}
	var failed *confine.Error
	if s.groups, failed = openGroups(&applier, plan); failed != nil {
		return nil, nil, failed
	}
	if err := applier.Spawn(plan); err != nil {
		return nil, nil, err
	}
	s.landlock = applier.Apart
	if err := s.watchDenials(&applier, plan); err != nil {
		return nil, nil, err
	}
	return s, applier.Skipped, nil
}

// watchDenials starts to record the refusals of the commands' filter.
func (s *Spawner) watchDenials(a *confine.Applier, plan *confine.Plan) *confine.Error {
	if a.Listener == 0 {
		return nil
	}
	if err := unix.SetNonblock(a.Listener, true); err != nil {
		return &confine.Error{Stage: "spawn", Op: "seccomp", Object: "listener", Cause: err.Error()}
	}
	w := &watcher{file: os.NewFile(uintptr(a.Listener), "denials"), options: plan.FilterOptions(), trees: s.Trees, reaper: s.Reaper, left: maxRefusals}
	go w.run()
	return nil
}

func procError(err error) *confine.Error {
	e := &confine.Error{Stage: "setup", Op: "proc", Object: "/proc", Cause: err.Error()}
	if errno, ok := err.(unix.Errno); ok { //nolint:errorlint // x/sys returns it bare
		e.Errno, e.Cause = int(errno), ""
	}
	if e.Errno == int(unix.EPERM) {
		e.Hint = "parts of /proc are masked here, as container engines do; run the container with an unmasked /proc (docker: --security-opt systempaths=unconfined; podman: --security-opt unmask=ALL)"
	}
	return e
}

// StartBare starts the spawner of an agent without walls: its commands have the
// agent's own identity and namespaces, except for the mark.
func StartBare() (*Spawner, *confine.Error) {
	type outcome struct {
		s   *Spawner
		err *confine.Error
	}
	ready := make(chan outcome)
	go func() {
		runtime.LockOSThread() // never unlocked: it changes its namespaces, and commands die with it
		s, err := bareSpawner()
		ready <- outcome{s, err}
		if err == nil {
			s.run()
		}
	}()
	o := <-ready
	return o.s, o.err
}

// bareSpawner prepares the calling thread for cloning commands without namespaces.
func bareSpawner() (*Spawner, *confine.Error) {
	failed := func(cause, hint string) *confine.Error {
		return &confine.Error{Stage: "setup", Op: "spawner", Cause: cause, Hint: hint}
	}
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, failed("cannot open /proc: "+err.Error(), "mount a proc of this pid namespace at /proc")
	}
	if !ShowsSelf() {
		return nil, failed("/proc shows the processes of another pid namespace", "mount a proc of this one at /proc, or use --init")
	}
	r := newReaper(0)
	f, err := newTreeIndex(r, proc, unix.Gettid())
	if err != nil {
		return nil, failed("cannot list children: "+err.Error(), "")
	}
	go r.run()
	return &Spawner{
		requests: make(chan spawnRequest),
		Reaper:   r,
		Trees:    &Trees{proc: proc, index: f, unmarked: unix.Unshare(unix.CLONE_NEWUTS) != nil},
		tid:      unix.Gettid(),
		bare:     true,
	}, nil
}

// KeepThreads starts n threads ahead, at most wire.MaxGuestThreads. The runtime
// never ends an idle thread, and ends the program if it needs one and cannot start
// it.
func KeepThreads(n int) {
	var begun sync.WaitGroup
	end := make(chan struct{})
	for range min(n, wire.MaxGuestThreads) {
		begun.Add(1)
		go func() {
			runtime.LockOSThread() // so that each waits on another thread
			defer runtime.UnlockOSThread()
			begun.Done()
			<-end
		}()
	}
	begun.Wait()
	close(end)
}
