//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/confine"
)

// isolator is a way to run a program with namespaces of its own.
type isolator struct {
	name   string
	maker  maker
	absent string // why it cannot be used here
	thread thread // where it is started; nil is anywhere
}

// measureCold compares the start, life and end of an isolated /bin/true. The
// peers get their mounts from Paddock's own plan, and each one's namespaces
// are looked at before anything is measured.
func measureCold(ctx context.Context, b *bench) error {
	plan, _, err := paddock.Plan(ctx, paddock.Spec{Workspace: paddock.Workspace{Source: b.workspace}}, paddock.Options{Agent: b.agent, StateDir: b.state})
	if err != nil {
		return err
	}
	isolators := []isolator{
		{name: "paddock run", maker: b.run},
		bubblewrap("bubblewrap", plan, b),
		bubblewrap("bubblewrap, without /etc", withoutEtc(plan), b),
		ociRuntime("crun", plan, b, "--cgroup-manager=disabled"),
		ociRuntime("runc", plan, b),
		{name: "unshare, no mounts but /proc", maker: unshare, absent: notInstalled("unshare")},
	}
	var cases []*benchCase
	for _, i := range isolators {
		c, err := i.isolated(ctx, plan.Namespaces)
		if err != nil {
			return err
		}
		cases = append(cases, c)
	}
	if own := cases[0]; own.absent != "" {
		return fmt.Errorf("cannot measure %s: %s", own.name, own.absent)
	}
	holding := command("paddock run, with an inherited descriptor 251", b.holding, "", "/bin/true")
	cases = append(cases, holding, command("/bin/true, not isolated", host, "", "/bin/true"))
	rounds := b.rounds(200, 40)
	if err := interleave(ctx, warmups, rounds, cases...); err != nil {
		return err
	}
	own, peer := cases[0], cases[1]
	b.add(times(fmt.Sprintf("cold start of an isolated /bin/true, %d rounds", rounds), time.Millisecond, peer, cases...),
		atMost("cold start: paddock run -- true, to bubblewrap", ratio(own.sample.median(), peer.sample.median()), 1.3, "×").unless(peer.absent),
		atMost("cold start, to one with an inherited descriptor 251", ratio(own.sample.median(), holding.sample.median()), 1.05, "×"))
	return nil
}

// isolated is the case of an isolator whose walls were looked at. One that
// does not work on this host is not measured.
func (i isolator) isolated(ctx context.Context, namespaces []confine.Namespace) (*benchCase, error) {
	if i.absent != "" {
		return missing(i.name, i.absent), nil
	}
	var seen view
	var broken error
	i.thread.do(func() { seen, broken = look(ctx, i.maker, namespaces) })
	if broken != nil {
		return missing(i.name, "it does not run here: "+broken.Error()), nil //nolint:nilerr // a fact about this host, which the table tells
	}
	note, err := seen.check()
	if err != nil {
		return nil, fmt.Errorf("cannot trust %s: %w", i.name, err)
	}
	c := i.thread.bind(command(i.name, i.maker, "", "/bin/true"))
	c.note = note
	return c, nil
}

// run is paddock run.
func (b *bench) run(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, b.paddock, append([]string{"run", "--"}, argv...)...)
	cmd.Dir = b.workspace
	return cmd, nil
}

// heldFD is a descriptor that does not fit into a process's first table.
const heldFD = 251

// holding is paddock run by a caller that leaves a descriptor open, as some shells and job runners do.
// Its table of descriptors is then large from the beginning.
func (b *bench) holding(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	cmd, err := b.run(ctx, argv...)
	if err != nil {
		return nil, err
	}
	null, err := os.Open(os.DevNull) // one for each run, because finish closes it
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = make([]*os.File, heldFD-2)
	cmd.ExtraFiles[heldFD-3] = null
	return cmd, nil
}

// unshare makes the namespaces and a /proc, and nothing else: what any of the
// others cannot be faster than.
func unshare(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	return exec.CommandContext(ctx, "unshare", append([]string{"--user", "--map-root-user", "--mount", "--pid", "--fork",
		"--ipc", "--uts", "--net", "--cgroup", "--mount-proc"}, argv...)...), nil
}

// view is what a program says of the place where it runs.
type view struct {
	links []string // below /proc, one for each namespace
	lines []string // what each one reads as inside, then the number of mounts
}

// look runs a program that tells what it sees.
func look(ctx context.Context, m maker, namespaces []confine.Namespace) (view, error) {
	var v view
	for _, ns := range namespaces {
		name := string(ns)
		if ns == confine.NSMount {
			name = "mnt"
		}
		v.links = append(v.links, "/proc/self/ns/"+name)
	}
	const script = `readlink "$@"; grep -c . /proc/self/mountinfo`
	_, out, err := finish(ctx, m, append([]string{"/bin/sh", "-c", script, "sh"}, v.links...)...)
	v.lines = strings.Fields(out)
	return v, err
}

// check compares the namespaces with ours. The note tells the number of mounts.
func (v view) check() (note string, err error) {
	if len(v.lines) != len(v.links)+1 {
		return "", fmt.Errorf("printed %q where %d namespaces and a number were expected", v.lines, len(v.links))
	}
	for i, link := range v.links {
		if outside, err := os.Readlink(link); err != nil || outside == v.lines[i] {
			return "", fmt.Errorf("shares %s with the host", link)
		}
	}
	return v.lines[len(v.links)] + " mounts", nil
}

// withoutEtc is the plan less what it makes visible below /etc.
func withoutEtc(p *confine.Plan) *confine.Plan {
	small := *p
	small.Setup = nil
	for _, s := range p.Setup {
		if !strings.HasPrefix(s.Target, "/etc/") {
			small.Setup = append(small.Setup, s)
		}
	}
	return &small
}

// notInstalled says how to get a peer that is not there.
func notInstalled(program string) string {
	if _, err := exec.LookPath(program); err != nil {
		return program + " is not installed; make bench-deps installs it"
	}
	return ""
}
