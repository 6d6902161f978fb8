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
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
)

// clientEnv makes this program a client of the servers whose addresses it has, as JSON.
const clientEnv = "PADDOCK_BENCH_NETWORK"

// networkAsk is what a client does, and networkTold what it prints.
type networkAsk struct {
	TLS, Raw string // addresses
	Short    int    // connections, one after another
	AtOnce   int
	Bytes    int64 // to read in one connection
}

type networkTold struct {
	Short             time.Duration // median of a TLS connection with one byte each way
	AtOnce            time.Duration // until the last of those at once was done
	TLSBytes, RawRate float64       // MiB a second
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

// measureNetwork compares connections of commands that reach a host by a rule with direct ones
// of the same program on the host, and starts with rules with starts without.
func measureNetwork(ctx context.Context, b *bench) error {
	if err := measureNetworkStart(ctx, b); err != nil {
		return err
	}
	address := ownAddress()
	names := []string{"short TLS connections by a rule, to direct ones", "bulk over TLS by a rule, to direct", "raw bulk by a rule, to direct"}
	if address == "" {
		const why = "this host has no address but loopback"
		for i, p := range []promise{atMost(names[0], 0, 1.7, "×"), atLeast(names[1], 0, 0.7, "×"), atLeast(names[2], 0, 0.4, "×")} {
			p.Name = names[i]
			b.add(table{Title: names[i]}, p.unless(why))
		}
		return nil
	}
	ask, stop, err := networkServers(address)
	if err != nil {
		return err
	}
	defer stop()
	ask.Short, ask.AtOnce, ask.Bytes = b.rounds(1000, 100), b.rounds(500, 50), int64(b.rounds(1<<30, 1<<27))
	box, client, err := b.networkBox(ctx, ask)
	if err != nil {
		return err
	}
	defer func() { _ = box.Close() }()
	env, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	var direct, inside []networkTold
	for range b.rounds(6, 2) {
		told, err := toldBy(func(out io.Writer) error {
			cmd := exec.CommandContext(ctx, client)
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), clientEnv+"="+string(env)), out, os.Stderr
			return cmd.Run()
		})
		if err != nil {
			return err
		}
		direct = append(direct, told)
		told, err = toldBy(func(out io.Writer) error {
			cmd := box.Command(ctx, client)
			cmd.AddEnv, cmd.Stdout, cmd.Stderr = []string{clientEnv + "=" + string(env)}, out, os.Stderr
			return cmd.Run()
		})
		if err != nil {
			return err
		}
		inside = append(inside, told)
	}
	middle := func(all []networkTold, of func(networkTold) float64) float64 {
		values := make([]float64, len(all))
		for i, t := range all {
			values[i] = of(t)
		}
		slices.Sort(values)
		return values[len(values)/2]
	}
	t := table{Title: fmt.Sprintf("connections to %s, %d rounds", address, len(direct))}
	both := func(what, unit string, of func(networkTold) float64) float64 {
		d, i := middle(direct, of), middle(inside, of)
		t.Rows = append(t.Rows, row{Name: what + ", direct", Median: d, Unit: unit}, row{Name: what + ", by a rule", Median: i, Unit: unit})
		return i / d
	}
	short := both(fmt.Sprintf("TLS connection, median of %d", ask.Short), "ms", func(t networkTold) float64 { return t.Short.Seconds() * 1e3 })
	both(fmt.Sprintf("%d TLS connections at once, none failed", ask.AtOnce), "ms", func(t networkTold) float64 { return t.AtOnce.Seconds() * 1e3 })
	bulk := both("bulk over TLS", "MiB/s", func(t networkTold) float64 { return t.TLSBytes })
	raw := both("bulk, raw", "MiB/s", func(t networkTold) float64 { return t.RawRate })
	b.add(t, atMost(names[0], short, 1.7, "×"), atLeast(names[1], bulk, 0.7, "×"), atLeast(names[2], raw, 0.4, "×"))
	return nil
}

// ownAddress returns an IPv4 address of the host that is not loopback, or "".
func ownAddress() string {
	addresses, _ := net.InterfaceAddrs()
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// networkServers starts a TLS server and a raw one, which answer a byte with a byte, or with
// as many as a line asks for.
func networkServers(address string) (ask networkAsk, stop func(), err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return ask, nil, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return ask, nil, err
	}
	raw, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return ask, nil, err
	}
	plain, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		_ = raw.Close()
		return ask, nil, err
	}
	encrypted := tls.NewListener(plain, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, SessionTicketsDisabled: true})
	for _, l := range []net.Listener{raw, encrypted} {
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go answerBytes(conn)
			}
		}()
	}
	ask.Raw, ask.TLS = raw.Addr().String(), plain.Addr().String()
	return ask, func() { _ = errors.Join(raw.Close(), encrypted.Close()) }, nil
}

// answerBytes sends as many bytes as a line of the connection says.
func answerBytes(conn net.Conn) {
	defer conn.Close()
	var line [32]byte
	n, err := conn.Read(line[:])
	if err != nil {
		return
	}
	count, err := strconv.ParseInt(strings.TrimSpace(string(line[:n])), 10, 64)
	if err != nil {
		return
	}
	for block := make([]byte, 1<<20); count > 0; {
		n, err := conn.Write(block[:min(count, int64(len(block)))])
		if err != nil {
			return
		}
		count -= int64(n)
	}
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

// networkBox opens a sandbox with rules for the two servers, in which this program is visible.
func (b *bench) networkBox(ctx context.Context, ask networkAsk) (*paddock.Sandbox, string, error) {
	client, err := b.ownProgram()
	if err != nil {
		return nil, "", err
	}
	spec := paddock.Spec{Workspace: paddock.Workspace{Source: b.workspace}, Mounts: []paddock.Mount{{Source: filepath.Dir(client)}}}
	for _, at := range []string{ask.TLS, ask.Raw} {
		rule, err := policy.ParseNetworkRule(at)
		if err != nil {
			return nil, "", err
		}
		spec.Network.Allow = append(spec.Network.Allow, rule)
	}
	spec.Network.Limits.Connections = 1024
	box, err := paddock.Open(ctx, spec, paddock.Options{Agent: b.agent, StateDir: b.state})
	return box, client, err
}

func toldBy(run func(io.Writer) error) (told networkTold, err error) {
	var out bytes.Buffer
	if err = run(&out); err == nil {
		err = json.Unmarshal(out.Bytes(), &told)
	}
	return told, err
}

// networkClient is this program as a client.
func networkClient(text string) error {
	var ask networkAsk
	if err := json.Unmarshal([]byte(text), &ask); err != nil {
		return err
	}
	var told networkTold
	var sample []time.Duration
	for range ask.Short {
		began := time.Now()
		if err := readBytes(ask.TLS, true, 1); err != nil {
			return err
		}
		sample = append(sample, time.Since(began))
	}
	slices.Sort(sample)
	told.Short = sample[len(sample)/2]
	began := time.Now()
	errs := make([]error, ask.AtOnce)
	var wg sync.WaitGroup
	for i := range ask.AtOnce {
		wg.Go(func() { errs[i] = readBytes(ask.TLS, true, 1) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	told.AtOnce = time.Since(began)
	rate := func(address string, encrypted bool) (float64, error) {
		began := time.Now()
		err := readBytes(address, encrypted, ask.Bytes)
		return float64(ask.Bytes) / (1 << 20) / time.Since(began).Seconds(), err
	}
	var err error
	if told.TLSBytes, err = rate(ask.TLS, true); err != nil {
		return err
	}
	if told.RawRate, err = rate(ask.Raw, false); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(told)
}

// readBytes asks a server for bytes, and reads them.
func readBytes(address string, encrypted bool, count int64) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if encrypted {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	if _, err := fmt.Fprintf(conn, "%d\n", count); err != nil {
		return err
	}
	got, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(conn, count), make([]byte, 256<<10))
	if err == nil && got != count {
		err = fmt.Errorf("%d bytes came, not %d", got, count)
	}
	return err
}
