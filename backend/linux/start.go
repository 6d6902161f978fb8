//go:build linux

package linux

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/byname"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/keep"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// Start builds the wall and starts an agent behind it.
//
// The agent's program starts while this side is still making the plan, so that
// neither waits for the other. The id-mapped mounts that the plan needs follow
// through the agent's control socket.
//
// If the host does not allow namespaces, a spec of level full falls back to
// the landlock level, provided that it allows this by name.
func (b *Backend) Start(ctx context.Context, req backend.Request) (backend.Sandbox, error) {
	if ctx.Err() != nil {
		return nil, backend.Interrupted(ctx, "boot", "the agent")
	}
	go wire.Warm()
	mounts, err := hostpath.Mounts(req, workspaceDir)
	if err != nil {
		return nil, err
	}
	dir, err := newStateDir(req.StateDir, req.ID)
	if err != nil {
		return nil, err
	}
	var s *sandbox
	if req.Spec.Level == policy.LevelLandlock {
		s, err = startLandlock(ctx, req, dir, mounts)
	} else {
		s, err = startFull(ctx, req, dir, mounts)
		if req.Spec.Allows(policy.DegradeNamespaces) && cannotNest(err) {
			s, err = startDegraded(ctx, req, dir, mounts, err)
		}
	}
	if err != nil {
		dir.remove()
		return nil, err
	}
	if err := s.save(&s.isolation); err != nil {
		_, _ = s.Stop(ctx, 0)
		return nil, err
	}
	return s, nil
}

// startFull tries the identities in order: first id-mapped mounts for the
// caller's files, then the owner of everything that was named, if that is one
// ordinary user.
func startFull(ctx context.Context, req backend.Request, dir *stateDir, mounts []hostpath.Mount) (*sandbox, error) {
	id, err := chooseIdentity()
	if err == nil {
		err = checkLayer(req, id)
	}
	if err == nil && id.kind == idmap {
		id.uid, err = dir.lendUID()
		id.gid = id.uid
	}
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, req, dir, id, mounts)
	var unmapped *unmappedError
	if tools := req.Toolchains.Mounts; errors.As(err, &unmapped) && tools > 0 { // which never fail a start
		own := mounts[:len(mounts)-tools]
		req, mounts = withoutToolchains(req, mounts, "its file system cannot be id-mapped")
		if !slices.ContainsFunc(own, func(m hostpath.Mount) bool { return m.Source == unmapped.source }) {
			s, err = start(ctx, req, dir, id, mounts)
		}
	}
	if !errors.As(err, &unmapped) {
		return s, err
	}
	if req.Layer != nil {
		return nil, backend.Failed("identity", "map the owner of", unmapped.source, unmapped.err,
			"root's overlays need a file system that can be id-mapped (ext4, xfs, btrfs, tmpfs): name a workspace on one, or run paddock as the user who owns it")
	}
	if id, err = asOwner(mounts); err == nil {
		return start(ctx, req, dir, id, mounts)
	}
	return nil, backend.Failed("identity", "map the owner of", unmapped.source, fmt.Errorf("%w (%w)", err, unmapped.err),
		"use a workspace on ext4, xfs, btrfs or tmpfs, or one that an ordinary user owns, or run paddock as that user")
}

func startLandlock(ctx context.Context, req backend.Request, dir *stateDir, mounts []hostpath.Mount) (*sandbox, error) {
	id, err := landlockIdentity(req.Spec, mounts)
	if err == nil {
		err = dir.makeScratch(id, homeLinks(req.Home, req.Toolchains.Home, mounts))
	}
	if err != nil {
		return nil, err
	}
	return start(ctx, req, dir, id, mounts)
}

// startDegraded starts at the landlock level although the spec asks for level full.
// cause is why that failed.
func startDegraded(ctx context.Context, req backend.Request, dir *stateDir, mounts []hostpath.Mount, cause error) (s *sandbox, err error) {
	req.Spec.Level = policy.LevelLandlock
	req, mounts = bareToolchains(req, mounts)
	if req.Spec, err = req.Spec.Resolve(policy.Base{}); err == nil {
		s, err = startLandlock(ctx, req, dir, mounts)
	}
	if err != nil {
		return nil, errors.Join(cause, err)
	}
	s.isolation.Degraded = append(s.isolation.Degraded, policy.DegradeNamespaces)
	return s, nil
}

// start makes one attempt with one identity. If it fails, it leaves only the
// state directory behind.
func start(ctx context.Context, req backend.Request, dir *stateDir, id identity, mounts []hostpath.Mount) (*sandbox, error) {
	keeper, _ := req.Keeper.(*keep.Keeper)
	l := &launch{dir: dir, id: id, keeper: keeper, report: req.ReportUse, groups: findHierarchy()}
	l.scope = wantsScope(l.groups, req.Spec.Limits)
	if len(l.groups.place.Controllers) > 0 {
		name := groupName(dir.ID)
		dir.group = filepath.Join(l.groups.place.Dir, name)
		var err error
		if l.group, err = newControl(l.groups, name, id); err != nil {
			return nil, err
		}
	}
	if req.Spec.Level == policy.LevelFull {
		l.namespaces = namespaces(req.Spec)
	}
	defer l.close()
	if err := l.open(req.Agent); err != nil {
		l.group.remove()
		return nil, err
	}
	s, err := l.clone(ctx)
	if err != nil {
		l.group.remove()
		return nil, err
	}
	s.program = req.Agent
	if policy.ByName(req.Spec.Network.Mode) {
		s.egress, err = byname.Start(keeper, req.Egress, dir.Dir, dir.uid)
	}
	if err == nil && req.Spec.SSHAgent != nil {
		s.sshAgent = &egress.SSHAgent{SSHAgent: *req.Spec.SSHAgent, KnownHosts: req.KnownHosts}
		s.sshAgentConn, err = byname.DialSSHAgent(ctx, req.SSHAgent)
	}
	if err == nil {
		err = s.prepare(req, id, mounts, l.groups)
	}
	if err == nil {
		err = s.boot(ctx, req)
	}
	if err != nil {
		s.kill()
		s.closeGateway()
		s.egress.End()
		s.group.remove()
		return nil, s.explain(err)
	}
	return s, nil
}

// prepare makes the plan and opens the files that go to the agent with it.
func (s *sandbox) prepare(req backend.Request, id identity, mounts []hostpath.Mount, groups hierarchy) error {
	var err error
	if req.Spec.Level == policy.LevelLandlock {
		s.plan, err = landlockPlan(req, id, mounts, groups, s.dir.group, s.dir.scratch)
	} else {
		s.plan, err = newPlan(req, id, mounts, groups, s.dir.group)
	}
	if err != nil || id.kind != idmap {
		return err
	}
	owners := map[[2]uint32]*os.File{} // their user namespaces
	defer func() {
		for _, userns := range owners {
			_ = userns.Close()
		}
	}()
	for i, m := range mounts {
		userns := owners[[2]uint32{m.UID, m.GID}]
		if userns == nil {
			if userns, err = ownerUserns(m, id, &s.helpers); err != nil {
				s.closeFiles()
				return &unmappedError{m.Source, err}
			}
			owners[[2]uint32{m.UID, m.GID}] = userns
		}
		f, err := mountMapped(m, userns)
		if err == nil && m.Layered {
			if f, err = mountLayer(f, req.Layer, m, userns, id, s.plan.filled()); err != nil {
				s.closeFiles()
				return err
			}
		}
		if err != nil && m.Merged() {
			s.plan.leaveOut(m.Target, err)
			s.plan.plan.Files = slices.DeleteFunc(s.plan.plan.Files, func(name string) bool { return name == mountName(i) })
			continue
		}
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE) {
			s.closeFiles()
			hint := "something else has taken its place meanwhile"
			if errors.Is(err, unix.ELOOP) {
				hint = "a symbolic link has taken its place meanwhile"
			}
			return backend.Failed("setup", "open", m.Source, err, hint)
		}
		if err != nil {
			s.closeFiles()
			return &unmappedError{m.Source, err}
		}
		s.files = append(s.files, f)
	}
	return nil
}

// unmappedError is a path that cannot be id-mapped.
type unmappedError struct {
	source string
	err    error
}

func (e *unmappedError) Error() string { return e.source + " cannot be id-mapped: " + e.err.Error() }
func (e *unmappedError) Unwrap() error { return e.err }

const (
	bootTimeout = time.Minute // for a new agent to build its walls
	slowestCopy = 16 << 20    // bytes a second, of a workspace that the agent copies
)

// boot hands the plan over, waits until the agent has built the walls, and verifies them.
func (s *sandbox) boot(ctx context.Context, req backend.Request) error {
	defer s.closeFiles()
	defer s.closeGateway()
	timeout := bootTimeout
	if spec := s.plan.spec; spec.Workspace.Mode == policy.ModeCopy {
		timeout += time.Duration(spec.Limits.Disk/slowestCopy) * time.Second
	}
	// Before AfterFunc: if ctx has ended already, its deadline must be the last.
	_ = s.control.SetDeadline(time.Now().Add(timeout))
	stop := context.AfterFunc(ctx, func() { _ = s.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	booted, err := s.handOver()
	if err != nil {
		if ctx.Err() != nil {
			return backend.Interrupted(ctx, "boot", "the agent")
		}
		return err
	}
	if f := booted.Failed; f != nil {
		return &backend.StartError{Stage: f.Stage, Op: f.Op, Object: f.Object, Errno: f.Errno, Cause: f.Cause, Hint: setupHint(f)}
	}
	if !stop() {
		return backend.Interrupted(ctx, "boot", "the agent") // its control socket has a deadline in the past and is of no use
	}
	_ = s.control.SetDeadline(time.Time{})
	if s.egress != nil {
		if err := s.serveEgress(ctx, req); err != nil {
			return err
		}
	}
	if s.group != nil {
		if err := s.group.settle(s.plan.groups, s.plan.plan.GroupLimits); err != nil {
			return err
		}
	}
	for _, e := range booted.Skipped {
		if e.Op == string(confine.OpOverlay) {
			s.plan.leaveOut(e.Object, e)
		}
		if err := s.plan.uncovered(e); err != nil {
			return err
		}
	}
	s.isolation = s.plan.plan.Isolation(booted.Skipped)
	var seen seenMounts
	checks := []check{{"threads", verifyThreads}}
	if !s.bare {
		checks = append(checks, check{"interfaces", verifyLinks}, check{"mounts", func(pid int, p *confine.Plan) (err error) {
			seen, err = verifyMounts(pid, p)
			return err
		}})
	}
	err = lookAt(s.pid, s.plan.plan, checks...)
	if err != nil {
		return err
	}
	s.isolation.Lost = append(s.isolation.Lost, lostBelow(seen.below)...)
	s.isolation.OwnCopies, s.isolation.Layer = seen.copies, seen.layer
	s.isolation.Verified = true
	if len(s.plan.copies) > 0 {
		// This handle outlives all processes inside, so that nothing changes
		// any more when the copies are read through it.
		fd, err := unix.Open(fmt.Sprintf("/proc/%d/root%s", s.pid, copiesDir), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return backend.Failed("verify", "open", copiesDir, err, "")
		}
		s.copies, s.copied = os.NewFile(uintptr(fd), copiesDir), s.copiedFiles()
	}
	return nil
}

// serveEgress hands the egress process what it works with, and returns when it serves.
func (s *sandbox) serveEgress(ctx context.Context, req backend.Request) error {
	if s.sshAgent != nil {
		s.gateway, s.sshAgentConn = append(s.gateway, s.sshAgentConn), 0
	}
	order := egress.Config{Network: req.Spec.Network.WithoutSources(), Names: egress.GatewayNames, SSHAgent: s.sshAgent}
	if own := req.Intercept; own != nil {
		order.Authority, order.Roots = &egress.Authority{Certificate: own.Certificate, Key: own.Key}, ownRoots()
		for _, secret := range own.Secrets {
			order.Secrets = append(order.Secrets, egress.Secret(secret))
		}
	}
	if err := s.egress.Serve(ctx, order, s.gateway); err != nil {
		return err
	}
	s.closeGateway() // the way out ends with the egress process
	return nil
}

// lostBelow says which places inside are read-only because the host has mounted
// something there.
func lostBelow(places []string) []string {
	const how = ", and so read-only; to write there name "
	switch n := len(places); n {
	case 0:
		return nil
	case 1:
		return []string{"writing to " + places[0] + ": it is a mount of the host's below what was named" + how + "it as a mount of its own, at that target"}
	default:
		shown, more := places[:min(n, 16)], ""
		if n > len(shown) {
			more = " and " + strconv.Itoa(n-len(shown)) + " more"
		}
		return []string{"writing to " + strings.Join(shown, ", ") + more + ": they are mounts of the host's below what was named" + how + "each as a mount of its own, at that target"}
	}
}

// save writes the sandbox's record. Before the isolation is known, the record identifies the
// agent's process for later starts, in case this process is killed; with the isolation, other
// processes can attach.
func (s *sandbox) save(isolation *policy.Isolation) error {
	start, err := state.StartTime(s.pid)
	if err == nil {
		err = s.dir.save(s.pid, start, isolation)
	}
	if err != nil {
		return backend.Failed("state", "save", s.dir.Path, err, hostpath.RoomHint(err, s.dir.Root))
	}
	return nil
}

const notAgent = "is it the paddock-agent of this release?"

// handOver sends the plan and its descriptors, and reads the agent's answer.
func (s *sandbox) handOver() (*confine.Booted, error) {
	fds := make([]int, len(s.files))
	for i, f := range s.files {
		fds[i] = int(f.Fd())
	}
	boot := confine.Boot{Protocol: wire.Version, Build: wire.Build, Plan: s.plan.plan}
	err := confine.SendFiles(s.control, fds)
	if err == nil {
		err = boot.Write(s.control)
	}
	if err != nil { // it has ended already
		return nil, backend.Failed("boot", "await the agent", "", err, notAgent)
	}
	// The first connection to the agent is made while the agent is busy.
	// Requests on it wait until the walls have been verified.
	s.spare, _ = state.Dial(context.Background(), s.dir.Path)
	s.spareAt = time.Now()
	saved, looked := s.save(nil), verifyClone(s.pid, s.plan.plan)
	var next byte
	s.gateway, next, err = confine.ReceiveFiles(s.control, egress.Stock+2)
	var booted *confine.Booted
	if err == nil {
		booted, err = confine.ReadBooted(io.MultiReader(bytes.NewReader([]byte{next}), s.control))
	}
	if err != nil {
		return nil, backend.Failed("boot", "await the agent", "", err, notAgent)
	}
	if booted.Protocol != wire.Version {
		return nil, backend.Failed("boot", "read the agent's answer", "", errors.New("it speaks another version of the protocol"), notAgent)
	}
	// If the agent has given up, its own words say more than these checks.
	if booted.Failed == nil && cmp.Or(saved, looked) != nil {
		return nil, cmp.Or(saved, looked)
	}
	return booted, nil
}

// closeGateway closes this side's copies of the gateway's sockets.
func (s *sandbox) closeGateway() {
	for _, fd := range s.gateway {
		_ = unix.Close(fd)
	}
	s.gateway = nil
	if s.sshAgentConn > 0 {
		_ = unix.Close(s.sshAgentConn)
		s.sshAgentConn = 0
	}
}

// closeFiles closes this side's copies of the descriptors, once the helper
// processes that they needed have ended.
func (s *sandbox) closeFiles() {
	s.helpers.Wait()
	for _, f := range s.files {
		_ = f.Close()
	}
	s.files = nil
}
