//go:build linux

// Package bypass has one list of attempts to reach what no rule opens, and makes them everywhere:
// on this host without a wall, where each must succeed; in sandboxes of Paddock, where none may but
// those that SECURITY.md tells of; and in sandboxes of others, for comparison.
//
// It has a network of its own: a namespace for this host, and one for the world, where every
// address answers. The programs are those that users have; names are asked for as the host does.
package bypass

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/docker"
	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/internal/testkit/engines"
	"github.com/paddock-dev/paddock/policy"
)

// roleEnv makes this program something else: the world, this host, or a column of the grid.
const roleEnv = "PADDOCK_BYPASS_ROLE"

var binDir = os.Getenv("PADDOCK_BYPASS_BIN") // where the programs are

// shown is the grid, once it is made.
var shown string

// The processes that this one starts first live as long as its first thread.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		os.Exit(testMain(m))
	case "world":
		end(serveWorld())
	case "host":
		end(serveHost())
		status := m.Run()
		if shown != "" { // whole by make test-bypass, which looks for these marks
			fmt.Printf("--- report: what gets through around rules of the network, by wall\n%s--- end of report\n", shown)
		}
		os.Exit(status)
	default:
		end(column(role))
		os.Exit(0)
	}
}

func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv(roleEnv) == "world" {
		os.Exit(0)
	}
}

// wanted is set by make test-bypass.
const wanted = "PADDOCK_TEST_BYPASS"

func testMain(m *testing.M) int {
	if os.Geteuid() != 0 || os.Getenv(wanted) == "" {
		return m.Run() // which skips
	}
	dir, err := os.MkdirTemp("", "paddock-bypass-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	for _, b := range []struct{ in, what string }{{"../..", "./cmd/paddock-agent ./cmd/paddock-egress"}, {".", "./attacker"}} {
		build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-o", dir + "/"}, strings.Fields(b.what)...)...)
		build.Dir, build.Env = b.in, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cannot build: %v\n%s", err, out)
			return 1
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// This host, in namespaces of its own.
	host := exec.Command("/proc/self/exe", os.Args[1:]...)
	host.Env = append(os.Environ(), roleEnv+"=host", "PADDOCK_BYPASS_BIN="+dir)
	host.Stdout, host.Stderr = os.Stdout, os.Stderr
	host.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGTERM}
	err = host.Run()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// roots has the certificate of the hosts of the world.
const roots = "roots.pem"

// world is the process of the world, which ends when its standard input does.
var world *exec.Cmd

// serveHost connects this process's network namespace, which is the host's, to the world, and
// serves what a host has: services on every address, and sockets.
func serveHost() error {
	boxtest.Usual(filepath.Join(binDir, "usual"))
	world = exec.Command("/proc/self/exe")
	world.Env = append(os.Environ(), roleEnv+"=world", "GODEBUG=http2xconnect=1")
	world.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	world.Stderr = os.Stderr
	if _, err := world.StdinPipe(); err != nil { // until this process ends
		return err
	}
	out, err := world.StdoutPipe()
	if err != nil {
		return err
	}
	if err := world.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the world has ended: %w", err)
	}
	der, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(line)))
	if err == nil {
		err = os.WriteFile(filepath.Join(binDir, roots), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644) // everybody reads it
	}
	if err != nil {
		return err
	}
	go func() {
		err := world.Wait()
		fmt.Fprintln(os.Stderr, "the world has ended:", err)
	}()
	pid := strconv.Itoa(world.Process.Pid)
	for _, line := range []string{
		"ip link set lo up",
		"ip link add h0 type veth peer name w0 netns " + pid,
		"ip address add " + hostAt + "/24 dev h0", "ip link set h0 up",
		"nsenter --net=/proc/" + pid + "/ns/net ip link set lo up",
		"nsenter --net=/proc/" + pid + "/ns/net ip address add " + resolverAt + "/24 dev w0",
		"nsenter --net=/proc/" + pid + "/ns/net ip link set w0 up",
		"nsenter --net=/proc/" + pid + "/ns/net ip route add local 0.0.0.0/0 dev lo",
		"ip route add default via " + resolverAt,
	} {
		words := strings.Fields(line)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", line, err, out)
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for name, text := range map[string]string{"resolv.conf": "nameserver " + resolverAt + "\n", "hosts": "127.0.0.1 localhost\n", "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n"} {
		file := filepath.Join(binDir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { // everybody reads it
			return err
		}
		if err := unix.Mount(file, "/etc/"+name, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mount %s: %w", name, err)
		}
	}
	cert, err := certificate()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", "0.0.0.0:443")
	if err != nil {
		return err
	}
	serveTLS(l, cert, "host")
	for _, name := range []string{"/run/paddock-bypass.sock", "@paddock-bypass"} {
		_ = os.Remove(name)
		l, err := net.Listen("unix", name)
		if err != nil {
			return err
		}
		if name[0] == '/' {
			if err := os.Chmod(name, 0o777); err != nil { // everybody may connect
				return err
			}
		}
		each(l, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			_, _ = io.WriteString(conn, "mark:host, a socket")
		})
	}
	return nil
}

// allowed are the rules of every sandbox.
func allowed() (n policy.Network) {
	for _, host := range []string{"api.test", "other.test", "*.wild.test", "drop.test", "loop.test", "own.test", "private.test", "metadata.test", "rebind.test"} {
		n.Allow = append(n.Allow, policy.NetworkRule{Host: host})
	}
	return n
}

// looking adds rules that look into requests.
func looking(n policy.Network) policy.Network {
	n.Allow = append(n.Allow,
		policy.NetworkRule{Host: "keys.test", Secret: &policy.NetworkSecret{Name: "KEYS_TOKEN", Source: "env:KEYS_TOKEN"}},
		policy.NetworkRule{Host: "stand.test", Secret: &policy.NetworkSecret{Name: "STAND_TOKEN", Header: "X-Key", Source: "env:STAND_TOKEN", Substitute: true}},
		policy.NetworkRule{Host: "narrow.test", HTTP: []policy.HTTPRule{{Methods: []string{"GET", "POST"}, Paths: []string{"/open/**"}}}})
	return n
}

// order is what a column of Paddock's is told.
type order struct {
	Dir    string // the workspace and Paddock's state
	Docker *policy.Docker
}

// column opens a sandbox, runs the attacker in it, and does what that asks for.
func column(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // the lifeline
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	spec := paddock.Spec{Workspace: paddock.Workspace{Source: filepath.Join(o.Dir, "ws")}}
	args := []string{}
	opts := paddock.Options{Agent: filepath.Join(binDir, "paddock-agent"), StateDir: filepath.Join(o.Dir, "state"), Path: os.Getenv("PATH")}
	rules := looking(allowed())
	if spec.Docker = o.Docker; o.Docker != nil { // there rules that look into requests are refused
		spec.Backend, opts.Backend = policy.BackendDocker, docker.New()
		rules, args = allowed(), []string{"copied"}
	}
	spec.Network = rules
	box, err := paddock.Open(ctx, spec, opts)
	if err != nil {
		return err
	}
	defer box.Close()
	iso := box.Isolation()
	fmt.Printf("isolation\t%s\t%s\n", iso.Network, iso.Egress.How)
	follow, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_ = box.NetworkLog(follow, 0, true, func(r egress.Record) error {
			if r.Kind == egress.KindFailed { // a host of the world's must be there
				fmt.Fprintln(os.Stderr, "failed:", r.Host, r.Port, r.Reason)
			}
			return nil
		})
	}()
	return drive(func(in io.Reader, out io.Writer) error {
		cmd := box.Command(ctx, "./attacker", args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, os.Stderr
		return cmd.Run()
	}, func(word string) error {
		switch word {
		case "drop":
			n := rules
			n.Allow = slices.Clone(rules.Allow)
			n.Allow[3].Host = "new.test" // instead of drop.test
			return box.SetNetwork(ctx, n)
		case "stop":
			return signalEgress(unix.SIGSTOP)
		case "kill":
			return signalEgress(unix.SIGKILL)
		}
		return errors.New("unknown: " + word)
	})
}

// drive runs an attacker, prints its results, and answers what it asks for by do.
func drive(run func(in io.Reader, out io.Writer) error, do func(word string) error) error {
	in, answers := io.Pipe()
	lines, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := run(in, out)
		_ = in.Close()
		_ = out.Close()
		done <- err
	}()
	var failed error
	scan := bufio.NewScanner(lines)
	for scan.Scan() {
		word, ok := strings.CutPrefix(scan.Text(), "ask\t")
		if !ok {
			fmt.Println(scan.Text())
			continue
		}
		if failed = do(word); failed != nil {
			_ = answers.Close()
			break
		}
		_, _ = io.WriteString(answers, "done\n")
	}
	_, _ = io.Copy(io.Discard, lines)
	return errors.Join(failed, <-done)
}

// signalEgress sends a signal to the egress process, a child of this one.
func signalEgress(signal unix.Signal) error {
	tasks, _ := filepath.Glob("/proc/self/task/*/children")
	for _, task := range tasks {
		children, _ := os.ReadFile(task)
		for word := range strings.FieldsSeq(string(children)) {
			if name, err := os.ReadFile("/proc/" + word + "/cmdline"); err == nil && strings.HasPrefix(string(name), "paddock-egress") {
				pid, _ := strconv.Atoi(word)
				return unix.Kill(pid, signal)
			}
		}
	}
	return errors.New("there is no egress process")
}

// result is what became of an attempt.
type result struct{ word, detail string }

// ordinary is the id of the ordinary user.
const ordinary = 65531

// untried says what a dash means.
const untried = "-: not tried there; it needs rules of requests, secrets that stay outside, or rules that change.\n" +
	"A column of dashes: that sandbox did not start, as the log of the tests says.\n"

// grid is what became of each attempt, by column.
type grid struct {
	mu      sync.Mutex
	rows    []string
	columns []string
	cells   map[[2]string]result
}

// read takes the results of a column.
func (g *grid) read(t *testing.T, name string, out io.Reader) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.columns = append(g.columns, name)
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		f := strings.SplitN(scan.Text(), "\t", 4)
		if len(f) != 4 || f[0] != "result" {
			if f[0] != "isolation" {
				t.Logf("%s: %s", name, scan.Text())
			}
			continue
		}
		if _, known := g.cells[[2]string{f[1], g.columns[0]}]; !known {
			g.rows = append(g.rows, f[1])
		}
		g.cells[[2]string{f[1], name}] = result{f[2], f[3]}
	}
}

func (g *grid) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\t%s\n", strings.Join(g.columns, "\t"))
	for _, row := range g.rows {
		fmt.Fprint(w, row)
		for _, c := range g.columns {
			word := g.cells[[2]string{row, c}].word
			if word == "" {
				word = "-"
			}
			fmt.Fprint(w, "\t"+word)
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
	return b.String()
}

// meant are attempts that must succeed: they are within the rules.
var meant = []string{"an allowed name", "an allowed name in capitals", "an allowed name with a trailing dot", "an allowed name after 10,000 connections",
	"looked into: a request", "a request that rules let through", "a stand-in where its rule wants it"}

// told are those that SECURITY.md tells of: no rule sees into TLS that it does not intercept.
var told = []string{"Host of another inside TLS", ":authority of another, HTTP/2", "encrypted TLS hello, allowed outer name"}

// uncontrolled cannot succeed where each name has the address that it has everywhere.
var uncontrolled = []string{"the address of a dropped name, used for a new one"}

// secrets are variables: of attackers without a wall, and of whoever opens a sandbox.
var secrets = []string{"KEYS_TOKEN=" + keysSecret, "STAND_TOKEN=" + standSecret}

// TestBypass makes every attempt in every column.
func TestBypass(t *testing.T) {
	if os.Getenv(wanted) == "" {
		t.Skip("it takes long: make test-bypass runs it")
	}
	if os.Geteuid() != 0 {
		t.Fatal("only root can make a network for it")
	}
	g := &grid{cells: map[[2]string]result{}}
	attacker := filepath.Join(binDir, "attacker")
	// Without a wall.
	var control strings.Builder
	if err := driveTo(&control, exec.Command(attacker), secrets); err != nil {
		t.Fatal(err)
	}
	g.read(t, "no wall", strings.NewReader(control.String()))
	ours, containers := []string{}, []string{}
	open := func(name string, user uint32, docker *policy.Docker, env []string) {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp(binDir, "box-") //nolint:usetesting // every user reaches what is there
			if err != nil {
				t.Fatal(err)
			}
			o := order{Dir: dir, Docker: docker}
			ws := filepath.Join(dir, "ws")
			text, err := os.ReadFile(attacker)
			if err == nil {
				err = errors.Join(os.Chmod(dir, 0o755), os.Mkdir(ws, 0o755), os.WriteFile(filepath.Join(ws, "attacker"), text, 0o755)) // it is executed
			}
			line, jerr := json.Marshal(o)
			if err = errors.Join(err, jerr); err != nil {
				t.Fatal(err)
			}
			owner := user
			if owner == 0 {
				owner = 12345 // inside, root's commands are another user's
			}
			cmd := exec.Command("/proc/self/exe")
			for _, at := range []string{ws, filepath.Join(ws, "attacker")} {
				err = errors.Join(err, os.Chown(at, int(owner), int(owner)))
			}
			cmd.Env = append(append(os.Environ(), roleEnv+"="+string(line), "SSL_CERT_FILE="+filepath.Join(binDir, roots)), slices.Concat(secrets, env)...)
			cmd.SysProcAttr = &syscall.SysProcAttr{}
			lifeline, perr := cmd.StdinPipe()
			if err = errors.Join(err, perr); err != nil {
				t.Fatal(err)
			}
			defer lifeline.Close()
			if user != 0 {
				err = errors.Join(err, os.Chown(dir, int(user), int(user)))
				cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
				cmd.Env = append(cmd.Env, "HOME="+dir, "XDG_RUNTIME_DIR=", "XDG_STATE_HOME="+dir)
			}
			if err != nil {
				t.Fatal(err)
			}
			var out, errs strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &errs
			err = cmd.Run()
			if text := errs.String(); text != "" && err == nil {
				t.Log(text)
			}
			g.read(t, name, strings.NewReader(out.String()))
			if err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
			ours = append(ours, name)
		})
	}
	open("root", 0, nil, nil)
	open("ordinary user", ordinary, nil, nil)
	for _, e := range []struct {
		name  string
		start func(context.Context) (*engines.Engine, error)
	}{{"docker", engines.OwnDocker}, {"podman", engines.Podman}} {
		engine, err := e.start(t.Context())
		if none := (*engines.UnavailableError)(nil); errors.As(err, &none) {
			t.Run(e.name, func(t *testing.T) { t.Skip(none.Error()) })
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		open(e.name, 0, &policy.Docker{Binary: engine.Binary, Image: engines.Shell, ExtraRunArgs: engine.RunArgs}, engine.Env)
		engine.Close()
		containers = append(containers, e.name)
	}
	g.peers(t, attacker)
	g.judge(t, ours, containers)
	shown = g.String() + untried
}

// looksInto reports whether an attempt needs rules that look into requests.
func looksInto(row string) bool {
	for _, prefix := range []string{"looked into", "a secret", "a stand-in", "a variable with a secret", "a request that rules", "paths around", "methods that", "headers that"} {
		if strings.HasPrefix(row, prefix) {
			return true
		}
	}
	return false
}

// judge compares the grid with what has to be. Containers have no rules that look into requests.
func (g *grid) judge(t *testing.T, ours, containers []string) {
	t.Helper()
	is := slices.Contains[[]string]
	through := 0
	for _, row := range g.rows {
		if c := g.cells[[2]string{row, "no wall"}]; c.word != "through" && !is(uncontrolled, row) {
			t.Errorf("%s does not get through where there is no wall: %s", row, c.detail)
		}
		for _, name := range ours {
			c := g.cells[[2]string{row, name}]
			switch want := is(meant, row); {
			case c.word == "" && is(containers, name) && looksInto(row):
			case c.word == "":
				t.Errorf("%s: %s was not tried", name, row)
			case want && c.word != "through":
				t.Errorf("%s: %s is cut: %s", name, row, c.detail)
			case !want && !is(told, row) && c.word != "cut":
				through++
				t.Errorf("%s: %s gets through: %s", name, row, c.detail)
			}
		}
	}
	t.Logf("%d of %d attempts get through in %d sandboxes, but for what SECURITY.md tells of", through, len(g.rows), len(ours))
}

// driveTo runs an attacker's command, and writes its results. It does nothing that is asked for.
func driveTo(w io.Writer, cmd *exec.Cmd, env []string) error {
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cmd.Env, cmd.Stderr = append(os.Environ(), env...), os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	stop := time.AfterFunc(10*time.Minute, func() { _ = cmd.Process.Kill() })
	defer stop.Stop()
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		if strings.HasPrefix(scan.Text(), "ask\t") {
			_, _ = io.WriteString(in, "not done\n")
			continue
		}
		_, _ = fmt.Fprintln(w, scan.Text())
	}
	return cmd.Wait()
}
