//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

// The names that ./egress knows. Connections to one are copied, requests to the other are read.
const (
	copiedHost      = "copied.bench.test"
	interceptedHost = "intercepted.bench.test"
)

// measureNetwork compares connections of commands that reach a host by a rule with direct ones
// of the same program on the host, and looks at the process that they go through.
func measureNetwork(ctx context.Context, b *bench) error {
	if err := measureNetworkStart(ctx, b); err != nil {
		return err
	}
	w, err := b.openWorld(ctx)
	if err != nil {
		return err
	}
	defer w.close()
	for _, measure := range []func(context.Context) error{w.measureIdle, w.measureConnections, w.measureHeld, w.measureRules, w.measureLeft} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureNetworkStart compares starts with rules with starts without.
func measureNetworkStart(ctx context.Context, b *bench) error {
	rules := func(ctx context.Context, argv ...string) (*exec.Cmd, error) {
		cmd := exec.CommandContext(ctx, b.paddock, append([]string{"run", "--allow", "example.com", "--"}, argv...)...)
		cmd.Dir = b.workspace
		return cmd, nil
	}
	without, with := command("paddock run", b.run, "", "/bin/true"), command("paddock run --allow example.com", rules, "", "/bin/true")
	starts := b.rounds(100, 20)
	if err := interleave(ctx, warmups, starts, without, with); err != nil {
		return err
	}
	b.add(times(fmt.Sprintf("a start with rules for the network, %d rounds", starts), time.Millisecond, without, without, with),
		atMost("start with network rules, to one without", ratio(with.sample.median(), without.sample.median()), 1.4, "×"))
	return nil
}

// world is a sandbox with rules for the servers of the benchmark, and the process that keeps
// them.
type world struct {
	*bench
	at     servers
	box    *paddock.Sandbox
	client string
	egress int // its process
	ends   []func()
}

func (w *world) close() {
	for _, end := range slices.Backward(w.ends) {
		end()
	}
}

// openWorld opens a sandbox with rules for the two servers, in which this program is visible.
func (b *bench) openWorld(ctx context.Context) (_ *world, err error) {
	w := &world{bench: b}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	var root []byte
	var stop func()
	if w.at, root, stop, err = startServers("127.0.0.1"); err != nil {
		return nil, err
	}
	w.ends = append(w.ends, stop)
	if w.client, err = b.ownProgram(); err != nil {
		return nil, err
	}
	program, trusted := filepath.Join(b.dir, "egress"), filepath.Join(b.dir, "trusted.pem")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./bench/egress")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot build the egress process: %w: %s", err, out)
	}
	if err := os.WriteFile(trusted, root, 0o644); err != nil {
		return nil, err
	}
	for name, value := range map[string]string{paddock.EgressEnv: program, "SSL_CERT_FILE": trusted, "HTTPS_PROXY": "", "https_proxy": "", "ALL_PROXY": "", "all_proxy": ""} {
		old, was := os.LookupEnv(name)
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
		w.ends = append(w.ends, func() {
			if _ = os.Unsetenv(name); was {
				_ = os.Setenv(name, old)
			}
		})
	}
	spec := paddock.Spec{Workspace: paddock.Workspace{Source: b.workspace}, Mounts: []paddock.Mount{{Source: filepath.Dir(w.client)}}, Network: w.network()}
	if w.box, err = paddock.Open(ctx, spec, paddock.Options{Agent: b.agent, StateDir: b.state}); err != nil {
		return nil, err
	}
	w.ends = append(w.ends, func() { _ = w.box.Close() })
	for _, p := range processes() {
		if p.parent == os.Getpid() && p.argv == "paddock-egress" {
			w.egress = p.pid
		}
	}
	if w.egress == 0 {
		return nil, errors.New("there is no egress process")
	}
	return w, nil
}

// network returns the rules of the sandbox.
func (w *world) network() policy.Network {
	var ports []policy.Port
	for _, at := range []string{w.at.HTTPS, w.at.Raw} {
		_, port, _ := net.SplitHostPort(at)
		n, _ := strconv.ParseUint(port, 10, 16)
		ports = append(ports, policy.Port(n))
	}
	return policy.Network{
		Allow: []policy.NetworkRule{
			{Host: copiedHost, Ports: ports},
			{Host: interceptedHost, Ports: ports[:1], HTTP: []policy.HTTPRule{{Methods: []string{http.MethodGet}, Paths: []string{"/**"}}}},
		},
		Limits: policy.NetworkLimits{Connections: 1024},
	}
}

// named returns an address of a server under a name.
func named(host, address string) string {
	_, port, _ := net.SplitHostPort(address)
	return net.JoinHostPort(host, port)
}

// outside does an errand on the host.
func (b *bench) outside(ctx context.Context, client string, e errand) (told, error) {
	cmd := exec.CommandContext(ctx, client)
	var out bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), clientEnv+"="+e.String()), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return told{}, err
	}
	return parseTold(out.Bytes())
}

// inside does an errand in the sandbox.
func (w *world) inside(ctx context.Context, e errand) (told, error) {
	cmd := w.box.Command(ctx, w.client)
	var out bytes.Buffer
	cmd.AddEnv, cmd.Stdout, cmd.Stderr = []string{clientEnv + "=" + e.String()}, &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return told{}, err
	}
	return parseTold(out.Bytes())
}

func parseTold(line []byte) (t told, err error) {
	err = json.Unmarshal(line, &t)
	return t, err
}

// reached is what errands of one kind took.
type reached struct {
	wall, cpu sample // cpu: of the client, the server and the egress process
}

// connectionWays are the ways of a connection that are compared.
var connectionWays = [...]string{"direct", "copied", "intercepted"}

// connectionKind is a kind of connection, and what of it is measured.
type connectionKind struct {
	name     string
	errand   errand
	once     func(told) time.Duration
	promises [2]promise // copied, intercepted
}

// measureConnections compares connections by rules with direct ones.
func (w *world) measureConnections(ctx context.Context) error {
	bulk := int64(w.rounds(1<<30, 1<<27))
	short, many := w.rounds(1000, 100), w.rounds(500, 50)
	first := func(t told) time.Duration { return t.Median }
	all := func(t told) time.Duration { return t.AtOnce }
	kinds := []connectionKind{
		{fmt.Sprintf("a request, median of %d", short), errand{HTTPS: true, Times: short, Bytes: 1}, first,
			[2]promise{{Name: "short TLS connections by a rule, to direct ones", Bound: "≤", Limit: 1.7}, {Name: "short TLS connections that are intercepted, to direct ones", Bound: "≤", Limit: 1.8}}},
		{fmt.Sprintf("%d requests at once, none failed", many), errand{HTTPS: true, AtOnce: many, Bytes: 1}, all, [2]promise{}},
		{fmt.Sprintf("%d MiB over TLS", bulk>>20), errand{HTTPS: true, AtOnce: 1, Bytes: bulk}, all,
			[2]promise{{Name: "bulk over TLS by a rule, to direct", Bound: "≥", Limit: 0.7}, {Name: "bulk over TLS that is intercepted, to direct", Bound: "≥", Limit: 0.2}}},
		{fmt.Sprintf("%d MiB, raw", bulk>>20), errand{AtOnce: 1, Bytes: bulk}, all, [2]promise{{Name: "raw bulk by a rule, to direct", Bound: "≥", Limit: 0.4}, {}}},
	}
	rounds := w.rounds(6, 2)
	took := make([][3]reached, len(kinds))
	for round := range rounds {
		for k, kind := range kinds {
			for i := range connectionWays {
				if round%2 == 1 { // no way always comes after the same one
					i = len(connectionWays) - 1 - i
				}
				if i == 2 && !kind.errand.HTTPS {
					continue
				}
				e := kind.errand
				e.Address = w.at.Raw
				if e.HTTPS {
					e.Address = w.at.HTTPS
				}
				run := func() (told, error) { return w.outside(ctx, w.client, e) }
				if i > 0 {
					e.Address = named([]string{"", copiedHost, interceptedHost}[i], e.Address)
					run = func() (told, error) { return w.inside(ctx, e) }
				}
				self, egress := usedBySelf(), processorTime(w.egress)
				t, err := run()
				if err != nil {
					return fmt.Errorf("%s, %s: %w", kind.name, connectionWays[i], err)
				}
				r := &took[k][i]
				r.wall = append(r.wall, kind.once(t))
				r.cpu = append(r.cpu, (t.CPU+usedBySelf()-self+processorTime(w.egress)-egress)/time.Duration(max(e.Times, 1)))
			}
		}
	}
	w.addConnections(kinds, took, rounds)
	return nil
}

// addConnections reports what connections took, beside direct ones.
func (w *world) addConnections(kinds []connectionKind, took [][3]reached, rounds int) {
	t := table{Title: fmt.Sprintf("connections of commands by rules, %d rounds; processor time is that of client, server and egress process together", rounds)}
	var promises []promise
	for k, kind := range kinds {
		for i, way := range connectionWays {
			wall, cpu := took[k][i].wall.median(), took[k][i].cpu.median()
			if wall == 0 {
				continue
			}
			r := ratio(wall, took[k][0].wall.median())
			t.Rows = append(t.Rows,
				row{Name: kind.name + ", " + way, Median: wall.Seconds() * 1e3, P90: took[k][i].wall.quantile(0.9).Seconds() * 1e3, Unit: "ms", Ratio: r},
				row{Name: "  processor time", Median: cpu.Seconds() * 1e3, Unit: "ms", Ratio: ratio(cpu, took[k][0].cpu.median())})
			if i == 0 {
				continue
			}
			switch p := kind.promises[i-1]; p.Bound {
			case "≤":
				promises = append(promises, atMost(p.Name, r, p.Limit, "×"))
			case "≥":
				promises = append(promises, atLeast(p.Name, 1/r, p.Limit, "×"))
			}
		}
	}
	w.add(t, promises...)
}

// servers are where the servers of the benchmark listen.
type servers struct{ HTTPS, Raw string }

// startServers starts a server that answers a request for /N with N bytes, and one that does so
// for a line with N. It returns what to trust the first one by.
func startServers(address string) (at servers, root []byte, stop func(), err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return at, nil, nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{copiedHost, interceptedHost},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return at, nil, nil, err
	}
	raw, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return at, nil, nil, err
	}
	encrypted, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		_ = raw.Close()
		return at, nil, nil, err
	}
	go func() {
		for {
			conn, err := raw.Accept()
			if err != nil {
				return
			}
			go answerLines(conn)
		}
	}()
	server := &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", r.URL.Path[1:])
			sendBytes(w, r.URL.Path[1:])
		}),
	}
	go func() { _ = server.ServeTLS(encrypted, "", "") }()
	stop = func() { _ = errors.Join(raw.Close(), server.Close()) }
	return servers{HTTPS: encrypted.Addr().String(), Raw: raw.Addr().String()}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), stop, nil
}

// answerLines answers each line of a connection.
func answerLines(conn net.Conn) {
	defer conn.Close()
	var line [32]byte
	for {
		n, err := conn.Read(line[:])
		if err != nil || !sendBytes(conn, strings.TrimSpace(string(line[:n]))) {
			return
		}
	}
}

// sendBytes writes as many bytes as a text says.
func sendBytes(w io.Writer, text string) bool {
	count, err := strconv.ParseInt(text, 10, 64)
	for block := make([]byte, min(max(count, 0), 1<<20)); count > 0 && err == nil; {
		var n int
		n, err = w.Write(block[:min(count, int64(len(block)))])
		count -= int64(n)
	}
	return err == nil
}

// ownProgram returns a copy of this program, in a directory of its own for sandboxes to see.
func (b *bench) ownProgram() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	client := filepath.Join(b.dir, "network", "client")
	if err := os.Mkdir(filepath.Dir(client), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return "", err
	}
	return client, os.WriteFile(client, program, 0o755)
}
