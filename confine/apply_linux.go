package confine

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Applier applies a plan to the process and the thread that call it. Both
// methods must be called from the same locked thread, the one from which
// commands are cloned afterwards.
type Applier struct {
	// Files holds the descriptors that the plan names. Binding one closes it.
	Files map[string]int
	// Proc begins to mount a fresh proc at a path, from inside the commands' pid
	// namespace: a process outside of it cannot do that. await waits for the
	// mount, and is called before a step needs it.
	Proc func(path string) (await func() error, err error)

	// Self is a handle of a proc that shows this process, 0 for /proc.
	Self int
	// InPlace means that the process stays in the host's mount namespace.
	InPlace bool
	// Cgroup is the handle of the sandbox's control group, 0 if it has none.
	Cgroup int

	// Listener is the descriptor on which a supervisor is notified of denied
	// calls of commands, 0 if there is no supervisor.
	Listener int
	// Gateway are the sockets of the gateway, which the host side must get, and after them
	// those that listen.
	Gateway []int
	// Apart is the Landlock ruleset that each command must apply to itself, 0 if
	// there is none.
	Apart int

	trees    map[int]int     // detached mounts, by the index of their step
	uppers   map[int]int     // those of layers, by the index of their step
	treeless map[int]error   // why there is none for an optional step
	made     map[string]bool // directories of the new root that exist
	proc     *Step           // the step whose proc is being mounted; nil afterwards
	procEnd  func() error
	// Skipped collects optional steps that failed, with their reason.
	Skipped []*Error
}

// Setup builds the sandbox around the calling process. If it fails, the process
// must end, because the sandbox is incomplete.
func (a *Applier) Setup(p *Plan) *Error {
	a.made = map[string]bool{".": true}
	if err := a.openTrees(p.Setup); err != nil {
		return err
	}
	return a.apply("setup", p.Setup)
}

// Spawn confines the calling thread, and so every command cloned from it.
func (a *Applier) Spawn(p *Plan) *Error { return a.apply("spawn", p.Spawn) }

func (a *Applier) apply(stage string, steps []Step) *Error {
	for i := range steps {
		if err := a.awaitProc(stage, &steps[i]); err != nil {
			return err
		}
		err := a.step(i, &steps[i])
		if err == nil {
			continue
		}
		failed := stepError(stage, &steps[i], err)
		if !steps[i].Optional {
			return failed
		}
		a.Skipped = append(a.Skipped, failed)
	}
	return nil
}

// awaitProc waits for the fresh proc if the next step needs it: because its
// target is below the proc, or because it is the pivot, which changes the
// proc's path.
func (a *Applier) awaitProc(stage string, next *Step) *Error {
	if a.proc == nil || next.Do != OpPivot && !strings.HasPrefix(next.Target, a.proc.Target+"/") {
		return nil
	}
	begun := a.proc
	a.proc = nil
	if err := a.procEnd(); err != nil {
		return stepError(stage, begun, err)
	}
	return nil
}

// step applies one step; i is its index.
func (a *Applier) step(i int, s *Step) error {
	switch s.Do {
	case OpBind:
		return a.bind(i, s)
	case OpCgroup:
		return a.openCgroup(i, s)
	case OpCgroupNS:
		return unix.Unshare(unix.CLONE_NEWCGROUP)
	case OpLayer:
		return a.layer(i, s)
	case OpCopy:
		return a.copy(i, s)
	case OpSelf:
		return bindSelf(s)
	case OpOwnCopy:
		return a.ownCopy(s)
	case OpOverlay:
		return a.overlay(i, s)
	case OpTmpfs:
		return a.mountTmpfs(s)
	case OpDevpts:
		return a.mountDevpts(s)
	case OpProc:
		return a.beginProc(s)
	case OpMkdir:
		return a.makeDir(s)
	case OpFile:
		return a.makeFile(s)
	case OpSymlink:
		return a.makeSymlink(s)
	case OpPivot:
		return pivot()
	case OpReadOnly:
		return unix.MountSetattr(unix.AT_FDCWD, s.Target, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	case OpHostname:
		return unix.Sethostname([]byte(s.Source))
	case OpLoopback:
		return loopbackUp()
	case OpGateway:
		return a.openGateway(s)
	case OpListen:
		return a.listen(s)
	case OpKeyring:
		return joinKeyring()
	case OpSysctl:
		return writeSysctl(s.Target, s.Source)
	case OpReset:
		return resetProcess(!slices.Contains(s.Flags, FlagOutlive))
	case OpCaps:
		if slices.Contains(s.Flags, FlagBounding) {
			return keepForSelf()
		}
		return keepCaps(a.Self, s.Caps)
	case OpNoNew:
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	case OpLandlock:
		return restrict(s)
	case OpApart:
		var err error
		a.Apart, err = apartRuleset()
		return err
	case OpSeccomp:
		return a.loadSeccomp(s)
	case OpShield:
		return loadFilter(shieldFilter(uint32(unix.Getpid()), uint32(unix.Gettid())), false)
	}
	return errors.New("unknown operation")
}

// loadSeccomp loads a filter, and keeps the descriptor of one that notifies.
func (a *Applier) loadSeccomp(s *Step) (err error) {
	if !slices.Contains(s.Flags, FlagNotify) {
		return loadFilter(s.Data, slices.Contains(s.Flags, FlagAllThreads))
	}
	a.Listener, err = loadWatched(s.Data)
	return err
}

// openGateway makes the gateway, for the host side.
func (a *Applier) openGateway(s *Step) (err error) {
	a.Gateway, err = gateway(int(s.Size))
	return err
}

// beginProc makes the mount point and begins to mount a fresh proc there.
func (a *Applier) beginProc(s *Step) error {
	if err := a.mountPoint(s.Target, true); err != nil {
		return err
	}
	end, err := a.Proc(relative(s.Target))
	if err == nil {
		a.proc, a.procEnd = s, end
	}
	return err
}

// stepError returns an Error for a failed step, with the errno that err wraps.
func stepError(stage string, s *Step, err error) *Error {
	var typed *Error
	if errors.As(err, &typed) {
		typed.Stage = stage
		return typed
	}
	e := &Error{Stage: stage, Op: string(s.Do), Object: s.Target, Cause: err.Error(), Hint: s.Hint}
	if s.Source != "" && (s.Do == OpBind || s.Do == OpCopy) { // an overlay is named by its target
		e.Object = s.Source
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Errno, e.Cause = int(errno), ""
	}
	return e
}
