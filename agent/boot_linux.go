package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/beneath"
	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/agent/internal/files"
	"github.com/paddock-dev/paddock/agent/internal/spawn"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/redact"
	"github.com/paddock-dev/paddock/wire"
)

// Main runs an agent that a backend started: it boots from the control
// descriptor, serves on the listening one, and ends when the lifeline breaks. It
// returns the exit status. With report it tells its owner when the sandbox is used, and when not.
// It must be called on the process's first thread, locked.
func Main(report bool) int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fail(err)
	}
	name := [...]byte{'p', 'a', 'd', 'd', 'o', 'c', 'k', '-', 'a', 'g', 'e', 'n', 't', 0} // a program that was started through a descriptor has a number as its name
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	runtime.UnlockOSThread()
	unix.Umask(0o022)
	unix.CloseOnExec(confine.ControlFD)
	unix.CloseOnExec(confine.ListenFD)
	if err := unix.SetNonblock(confine.ControlFD, true); err != nil { // so that no thread blocks in a read
		return fail(err)
	}
	control := os.NewFile(confine.ControlFD, "control")
	boot, files, err := readBoot(control)
	if err != nil {
		return fail(fmt.Errorf("cannot read the plan: %w", err))
	}
	agent, gateway, booted := start(boot, files)
	if len(gateway) > 0 { // no handle of it stays here: it ends with the host side's
		err = confine.SendFiles(control, gateway)
		for _, fd := range gateway {
			_ = unix.Close(fd)
		}
	}
	if err != nil || booted.Write(control) != nil || booted.Failed != nil {
		return 1
	}
	listen := os.NewFile(confine.ListenFD, "listen")
	ln, err := net.FileListener(listen) // on a duplicate
	listen.Close()
	if err != nil {
		return fail(err)
	}
	wire.Warm()
	if report {
		agent.Running.Use = core.NewUse(func(busy bool) bool { return tellUse(control, busy) })
	}
	go func() { _ = agent.serve(ln) }() // it fails only when the sandbox ends
	return agent.await(control)
}

// tellUse tells the owner of the sandbox whether something is done in it, and returns whether
// that went out: an owner that does not read must not hold the agent up.
func tellUse(control *os.File, busy bool) bool {
	word := []byte{confine.SaysIdle}
	if busy {
		word[0] = confine.SaysBusy
	}
	sent := true // also if the owner has gone, which ends the agent
	if conn, err := control.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) {
			sent = !errors.Is(unix.Sendto(int(fd), word, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil), unix.EAGAIN)
		})
	}
	return sent
}

// fail reports on standard error, which the host side keeps.
func fail(err error) int {
	fmt.Fprintf(os.Stderr, "paddock-agent: cannot start: %v\n", err)
	return 1
}

// readBoot reads the descriptors that the host side sends, and then the plan.
func readBoot(control *os.File) (boot *confine.Boot, files []int, err error) {
	const most = 4096 // more than any plan has mounts
	files, next, err := confine.ReceiveFiles(control, most)
	if err != nil {
		return nil, nil, err
	}
	boot, err = confine.ReadBoot(io.MultiReader(bytes.NewReader([]byte{next}), control))
	return boot, files, err
}

// start builds the sandbox around this process and makes the agent that serves it. It also
// returns the sockets of the gateway, if the plan has one.
func start(boot *confine.Boot, fds []int) (*Agent, []int, confine.Booted) {
	answer := confine.Booted{Protocol: wire.Version, Build: wire.Build}
	if err := compatible(boot, fds); err != nil {
		answer.Failed = err
		return nil, nil, answer
	}
	rules, rerr := redact.Compile(nil, boot.Plan.Redaction)
	if rerr != nil {
		answer.Failed = &confine.Error{Stage: "setup", Op: "redact", Cause: rerr.Error()}
		return nil, nil, answer
	}
	s, skipped, err := spawn.Start(boot.Plan, fds)
	answer.Skipped, answer.Failed = skipped, err
	if err != nil {
		return nil, nil, answer
	}
	dir, werr := beneath.Open(boot.Plan.Workspace)
	if werr != nil {
		answer.Failed = &confine.Error{Stage: "setup", Op: "open", Object: boot.Plan.Workspace, Cause: werr.Error()}
		return nil, nil, answer
	}
	state, secrets := core.HiddenState("shells", "services"), files.SecretPath
	if boot.Plan.Scratch != "" {
		state = core.StateBelow(filepath.Join(boot.Plan.Scratch, confine.ScratchState), "shells", "services")
		secrets = filepath.Join(boot.Plan.Scratch, confine.ScratchSecrets, "set")
	}
	box := &core.Sandbox{
		Spawner:      s,
		Reaper:       s.Reaper,
		Trees:        s.Trees,
		Env:          boot.Plan.Env,
		OwnPath:      true,
		Limits:       boot.Plan.Rlimits,
		Workspace:    boot.Plan.Workspace,
		WorkspaceDir: dir,
		Rules:        rules,
	}
	a := newAgent(box, &files.Workspace{Dir: dir, Copies: map[string]string{}}, files.SecretsAt(secrets, &box.Vault), state[0], state[1])
	a.isolation = boot.Plan.Isolation(skipped)
	for _, step := range boot.Plan.Setup {
		if step.Do == confine.OpOwnCopy && !slices.ContainsFunc(skipped, func(e *confine.Error) bool { return e.Op == string(step.Do) && e.Object == step.Target }) {
			a.files.Copies[step.Target] = step.Source
		}
	}
	return a, s.Gateway, answer
}

func compatible(boot *confine.Boot, fds []int) *confine.Error {
	if boot.Protocol != wire.Version {
		return &confine.Error{Stage: "handshake", Op: "protocol", Cause: fmt.Sprintf("the host side speaks version %d, this agent %d", boot.Protocol, wire.Version),
			Hint: sameRelease}
	}
	if boot.Build != "" && wire.Build != "" && boot.Build != wire.Build {
		return &confine.Error{Stage: "handshake", Op: "build", Cause: fmt.Sprintf("the host side is build %s, this agent %s", boot.Build, wire.Build),
			Hint: sameRelease}
	}
	if boot.Plan == nil || boot.Plan.Version != confine.PlanVersion || len(boot.Plan.Files) != len(fds) {
		return &confine.Error{Stage: "handshake", Op: "plan", Cause: "it is of another version's format", Hint: sameRelease}
	}
	return nil
}

const sameRelease = "install paddock and paddock-agent from one release"

// await returns when the host side has closed its end of the control socket
// or the inner init has ended, each of which ends the sandbox. With namespaces the
// kernel then kills every command; without them the agent does.
func (a *Agent) await(control io.Reader) int {
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, control)
		if a.Trees.Walled() {
			os.Exit(0)
		}
		close(gone)
	}()
	select {
	case <-a.Reaper.InitGone:
		fmt.Fprintln(os.Stderr, "paddock-agent: the commands' init has ended")
		return 1
	case <-gone:
	}
	return a.endTrees()
}

// endTrees kills everything that the agent has started. It returns the exit status,
// which says whether the end is proved.
func (a *Agent) endTrees() int {
	a.Reaper.Close()
	everything := a.Trees.Everything()
	for end := time.Now().Add(endTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, proved := a.Trees.Kill(everything); proved {
			return 0
		}
	}
	return confine.ExitUnproved
}

// endTimeout bounds how long an agent without namespaces tries to kill what it
// started.
const endTimeout = 8 * time.Second
