//go:build linux

package docker

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/byname"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/backend/state"
	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/egress/knownhosts"
	"github.com/paddock-dev/paddock/policy"
)

// nameHosts adds to a container without a network what lets its commands reach hosts by name;
// dir is the sandbox's directory. The agent makes sockets in the container's own network
// namespace and passes them to the egress process, before the first command. It refuses an
// engine behind which that would not work, or could not be checked.
func (b *build) nameHosts(spec policy.Spec, e *engine, dir string) error {
	if spec.Network.Mode != policy.NetworkAllow {
		return nil
	}
	refuse := func(why, hint string) error { return hostpath.Refuse("network", policy.NetworkAllow, why, hint) }
	switch {
	case e.kind == nerdctl:
		return refuse("nerdctl does not tell what it made, so another way out could not be ruled out", "use docker or podman, or backend linux")
	case !e.local:
		return refuse("the engine runs on another machine, from which no sockets can be passed to this one", "use an engine of this machine, or `network` none or host")
	case b.says("network", "net", "pod", "sysctl"):
		return hostpath.Refuse("docker.extra_run_args", strings.Join(b.extra, " "), "rules hold in a container without another network", "leave out --network, --net, --pod and --sysctl, or use `network` none or host")
	}
	if i := slices.IndexFunc(spec.Network.Allow, policy.NetworkRule.Intercepts); i >= 0 {
		return hostpath.Refuse(fmt.Sprintf("network.allow[%d]", i), spec.Network.Allow[i].Host, "requests are looked into, and the programs of an image cannot be made to trust a certificate for that", "leave out http and secret, or use backend linux")
	}
	b.lowPorts = true
	mounts := []mount{
		{source: filepath.Join(dir, state.ResolvName), target: resolvPath, why: "names are asked for at the egress process"},
		{source: filepath.Join(dir, state.PassageName), target: passagePath, why: "over it the agent passes sockets to the egress process, once"},
	}
	if spec.SSHAgent != nil {
		mounts = append(mounts,
			mount{source: filepath.Join(dir, state.SSHAgentName), target: sshAgentPath, why: "the SSH agent, as far as the egress process lets commands use it"},
			mount{source: filepath.Join(dir, state.KnownHostsName), target: knownHostsPath, why: "the keys of hosts that rules open"})
	}
	for _, m := range mounts {
		m.kind, m.readOnly, m.file = mountBind, true, identify(m.source)
		b.mounts = append(b.mounts, m)
	}
	var addresses []string
	for _, rule := range spec.Network.Allow {
		_, aerr := netip.ParseAddr(rule.Host)
		if _, nerr := netip.ParsePrefix(rule.Host); aerr == nil || nerr == nil {
			addresses = append(addresses, rule.Host)
		}
	}
	if len(addresses) > 0 {
		b.lost = append(b.lost, "reaching "+strings.Join(addresses, ", ")+" by address: a container has no route there, and a name that leads there needs a rule, too")
	}
	return nil
}

// named is what the commands of a container reach hosts by name through.
type named struct {
	dir     *state.Dir
	passage *net.UnixListener
	lent    uint32 // host id, 0 for none
	process *byname.Process
	// sshAgent are the socket on which commands find the SSH agent, and a connection to the
	// caller's, until the egress process has them; none without one.
	sshAgent []int
}

// openNamed makes the directory of a sandbox with rules for its network, and starts the egress
// process, which waits for sockets. It returns nil without rules.
func (b *build) openNamed(ctx context.Context, req backend.Request, e *engine) (*named, error) {
	if req.Spec.Network.Mode != policy.NetworkAllow {
		return nil, nil //nolint:nilnil // there is none
	}
	dir, err := state.New(req.StateDir, req.ID, nil)
	if err != nil {
		return nil, err
	}
	n := &named{dir: dir}
	if os.Geteuid() == 0 {
		n.lent, err = dir.LendID()
	}
	if err == nil {
		n.passage, err = dir.Passage(state.PassageName)
	}
	if err == nil {
		err = n.write(state.ResolvName, []byte(byname.ResolvConf(egress.InsideNames)))
	}
	if err == nil && req.Spec.SSHAgent != nil {
		err = n.openSSHAgent(ctx, req)
	}
	if err == nil {
		err = b.nameHosts(req.Spec, e, dir.Path)
	}
	if err == nil {
		n.process, err = byname.Start(nil, req.Egress, dir, n.lent)
	}
	if err != nil {
		n.end()
		dir.Remove(nil)
		return nil, err
	}
	return n, nil
}

// write makes a file that is mounted in the container.
func (n *named) write(name string, text []byte) error {
	file := filepath.Join(n.dir.Path, name)
	if err := hostpath.Replace(file, 0o644, text); err != nil {
		return backend.Failed("state", "write", file, err, hostpath.RoomHint(err, n.dir.Root))
	}
	return nil
}

// openSSHAgent makes the socket of the SSH agent and the list of the hosts at which it may be
// used, and connects to the caller's agent.
func (n *named) openSSHAgent(ctx context.Context, req backend.Request) error {
	known := knownhosts.Parse(req.KnownHosts).Opened(egress.NewTable(req.Spec.Network))
	if err := n.write(state.KnownHostsName, known); err != nil {
		return err
	}
	l, err := n.dir.Passage(state.SSHAgentName)
	if err != nil {
		return err
	}
	defer l.Close()
	own, err := l.File()
	if err != nil {
		return backend.Failed("state", "listen on", state.SSHAgentName, err, "")
	}
	defer own.Close()
	socket, err := unix.FcntlInt(own.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return backend.Failed("state", "listen on", state.SSHAgentName, err, "")
	}
	n.sshAgent = []int{socket}
	conn, err := byname.DialSSHAgent(ctx, req.SSHAgent)
	if err == nil {
		n.sshAgent = append(n.sshAgent, conn)
	}
	return err
}

// passTime is how long to wait for sockets that an agent which has answered has passed already.
const passTime = 5 * time.Second

// serve receives the sockets of the agent and hands them to the egress process, which does not
// trust them. Nobody can connect to the passage afterwards.
func (n *named) serve(ctx context.Context, req backend.Request) error {
	if n == nil {
		return nil
	}
	sockets, err := n.receive()
	defer func() { closeAll(sockets) }()
	if err != nil {
		return backend.Failed("egress", "receive", "the agent's sockets", err, "is it the paddock-agent of this release?")
	}
	order := egress.Config{Network: req.Spec.Network, Names: egress.InsideNames}
	if req.Spec.SSHAgent != nil {
		order.SSHAgent = &egress.SSHAgent{SSHAgent: *req.Spec.SSHAgent, KnownHosts: req.KnownHosts}
		sockets, n.sshAgent = append(sockets, n.sshAgent...), nil
	}
	return n.process.Serve(ctx, order, sockets)
}

func closeAll(sockets []int) {
	for _, fd := range sockets {
		_ = unix.Close(fd)
	}
}

func (n *named) receive() ([]int, error) {
	defer n.close()
	if err := n.passage.SetDeadline(time.Now().Add(passTime)); err != nil {
		return nil, err
	}
	conn, err := n.passage.AcceptUnix()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	file, err := conn.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := file.SetDeadline(time.Now().Add(passTime)); err != nil {
		return nil, err
	}
	sockets, _, err := confine.ReceiveFiles(file, egress.Stock+1)
	if err == nil && len(sockets) != egress.Stock+1 {
		err = fmt.Errorf("there are %d, not %d", len(sockets), egress.Stock+1)
	}
	return sockets, err
}

// close closes the passage.
func (n *named) close() {
	if n.passage != nil {
		_ = n.passage.Close()
		_ = os.Remove(filepath.Join(n.dir.Path, state.PassageName))
	}
}

// end ends the egress process, and frees its id.
func (n *named) end() {
	if n == nil {
		return
	}
	n.close()
	closeAll(n.sshAgent)
	n.sshAgent = nil
	n.process.End()
	state.ReturnID(n.dir.Root, n.lent)
}
