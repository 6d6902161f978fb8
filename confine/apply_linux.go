package confine

import (
	"errors"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Applier applies a plan to the process, and the thread, that calls it. Both
// methods must be called from the same locked thread: the one that commands
// are cloned from afterwards.
type Applier struct {
	// Files are the descriptors that the plan names. Binding one closes it.
	Files map[string]int
	// Proc has a fresh proc mounted at a path from inside the commands' pid
	// namespace, which no process that is outside of it can do. It does not
	// wait for that: await does, and is called before anything needs it.
	Proc func(path string) (await func() error, err error)

	// InPlace says that the process stays in the host's mount namespace.
	InPlace bool
	// Cgroup is the handle of the sandbox's control group, 0 where it has none.
	Cgroup int

	// Listener is where a supervisor is told of what commands are denied, 0
	// where nobody is.
	Listener int
	// Apart is the Landlock ruleset that each command is to apply to itself, 0
	// where it is not.
	Apart int

	trees   map[int]int     // step index to detached mount
	made    map[string]bool // directories of the new root that exist
	proc    *Step           // the proc that is being mounted, nil once it is awaited
	procEnd func() error
	// Skipped collects optional steps that failed, with their reason.
	Skipped []*Error
}

// Setup builds the sandbox around the calling process. When it fails the
// process must end: it is neither outside nor inside.
func (a *Applier) Setup(p *Plan) *Error {
	a.made = map[string]bool{".": true}
	if err := a.openTrees(p.Setup); err != nil {
		return err
	}
	return a.apply("setup", p.Setup)
}

// Spawn confines the calling thread, and with it every command to come.
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

// awaitProc waits for the fresh proc where a step needs it: one below it, and
// the one after which its place has another name.
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

func (a *Applier) step(i int, s *Step) error {
	switch s.Do {
	case OpBind:
		return a.bind(i, s)
	case OpCgroup:
		return a.openCgroup(i, s)
	case OpCgroupNS:
		return unix.Unshare(unix.CLONE_NEWCGROUP)
	case OpCopy:
		return a.copy(i, s)
	case OpSelf:
		return bindSelf(s)
	case OpOwnCopy:
		return a.ownCopy(s)
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
		return setReadOnly(s.Target)
	case OpHostname:
		return unix.Sethostname([]byte(s.Source))
	case OpLoopback:
		return loopbackUp()
	case OpKeyring:
		return joinKeyring()
	case OpSysctl:
		return writeSysctl(s.Target, s.Source)
	case OpReset:
		return resetProcess(!hasFlag(s.Flags, FlagOutlive))
	case OpCaps:
		if hasFlag(s.Flags, FlagBounding) {
			return keepForSelf()
		}
		return keepCaps(s.Caps)
	case OpNoNew:
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	case OpLandlock:
		return restrict(s)
	case OpApart:
		var err error
		a.Apart, err = apartRuleset()
		return err
	case OpSeccomp:
		if !hasFlag(s.Flags, FlagNotify) {
			return loadFilter(s.Data, hasFlag(s.Flags, FlagAllThreads))
		}
		var err error
		a.Listener, err = loadWatched(s.Data)
		return err
	case OpShield:
		return loadFilter(shieldFilter(uint32(unix.Getpid()), uint32(unix.Gettid())), false)
	}
	return errors.New("this version does not know the operation")
}

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

// stepError types a failure; an errno below err becomes the error's own.
func stepError(stage string, s *Step, err error) *Error {
	var typed *Error
	if errors.As(err, &typed) {
		typed.Stage = stage
		return typed
	}
	e := &Error{Stage: stage, Op: string(s.Do), Object: s.Target, Cause: err.Error(), Hint: s.Hint}
	if s.Source != "" && (s.Do == OpBind || s.Do == OpCopy) {
		e.Object = s.Source
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		e.Errno, e.Cause = int(errno), ""
	}
	return e
}

func hasFlag(flags []string, flag string) bool {
	for _, f := range flags {
		if f == flag {
			return true
		}
	}
	return false
}
