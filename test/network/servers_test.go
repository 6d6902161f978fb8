//go:build linux

package network

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/policy"
)

// TestPostgres: psql reaches a real database by name at the port of a rule, with TLS that begins
// in the middle of a connection, and without.
func TestPostgres(t *testing.T) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		t.Skip("there is no PostgreSQL")
	}
	wrapper, _ := filepath.Glob("/usr/lib/*/libnss_wrapper.so")
	if len(wrapper) == 0 {
		t.Skip("there is no libnss_wrapper.so")
	}
	bin := found[len(found)-1]
	w := newWorld(t)
	dir := t.TempDir()
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 { // it runs as no root
		uid, gid = 12346, 12346
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Lchown(filepath.Join(dir, name), uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	der, key := w.certificate(t, "db.test")
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write("passwd", fmt.Appendf(nil, "db:x:%d:%d::%s:/bin/sh\n", uid, gid, dir))
	write("group", fmt.Appendf(nil, "db:x:%d:\n", gid))
	write("server.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write("server.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	if err := errors.Join(os.Chown(dir, uid, gid), os.Chmod(dir, 0o700), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(bin, name), args...)
		cmd.Dir, cmd.Env = dir, []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "LD_PRELOAD=" + wrapper[0], "NSS_WRAPPER_PASSWD=" + dir + "/passwd", "NSS_WRAPPER_GROUP=" + dir + "/group"}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
		return cmd
	}
	if out, err := command("initdb", "--no-sync", "-A", "trust", "-U", "test", "-D", "data").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	reserved := listen(t)
	_, port, _ := net.SplitHostPort(reserved.Addr().String())
	_ = reserved.Close()
	server := command("postgres", "-D", "data", "-h", "127.0.0.1", "-p", port, "-k", "", "-F", "-c", "ssl=on",
		"-c", "ssl_cert_file="+dir+"/server.crt", "-c", "ssl_key_file="+dir+"/server.key")
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGQUIT) // at once, with its processes
		if _ = server.Wait(); t.Failed() {
			t.Logf("postgres: %s", log.String())
		}
	})
	testkit.Eventually(t, "the database answers", func() bool {
		return command("pg_isready", "-q", "-h", "127.0.0.1", "-p", port).Run() == nil
	})
	w.mu.Lock()
	w.servers["db.test:5432"] = "127.0.0.1:" + port
	w.mu.Unlock()

	box := w.open(t, allow(t, "db.test:5432"))
	query := func(options string) (string, int) {
		return run(t, box, filepath.Join(bin, "psql"), "-XAtc", "SELECT 6*7, ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", "host=db.test user=test dbname=postgres "+options)
	}
	for options, want := range map[string]string{"sslmode=disable": "42|f\n", "sslmode=verify-full sslrootcert=/workspace/ca.pem": "42|t\n"} {
		if out, status := query(options); status != 0 || out != want {
			t.Errorf("%s: status %d: %s", options, status, out)
		}
	}
	// 20 MiB, which the server begins to send.
	if out, status := run(t, box, filepath.Join(bin, "psql"), "-XAtc", "SELECT repeat('x', 20*1024*1024)", "host=db.test user=test dbname=postgres"); status != 0 || len(out) != 20<<20+1 {
		t.Errorf("status %d, %d bytes", status, len(out))
	}
	if out, status := query("port=5433 connect_timeout=60"); status == 0 || !strings.Contains(out, "refused") {
		t.Errorf("another port: status %d: %s", status, out)
	}
}

// TestJava: Java's HTTP client, which reads no proxy variable, reaches a host by name.
func TestJava(t *testing.T) {
	const java = "/usr/lib/jvm/default-java/bin/"
	for _, program := range []string{"java", "javac", "keytool"} {
		if _, err := os.Stat(java + program); err != nil {
			t.Skip("there is no " + java + program)
		}
	}
	w := newWorld(t)
	w.https(t, "api.test:443", hello)
	w.https(t, "evil.test:443", hello)
	plain := listen(t)
	w.add("api.test:80", plain)
	go func() { _ = http.Serve(plain, hello) }()
	box := w.open(t, allow(t, "api.test"))
	dir := box.Spec().Workspace.Source
	for _, args := range [][]string{
		{java + "javac", "-d", dir, filepath.Join("testdata", "Fetch.java")},
		{java + "keytool", "-importcert", "-noprompt", "-alias", "test", "-file", filepath.Join(dir, "ca.pem"), "-keystore", filepath.Join(dir, "trusted"), "-storepass", "changeit"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "trusted"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, status := run(t, box, java+"java", "-Djavax.net.ssl.trustStore=/workspace/trusted", "-Djavax.net.ssl.trustStorePassword=changeit", "-cp", "/workspace",
		"Fetch", "https://api.test/a", "http://api.test/b", "https://evil.test/")
	if status != 0 || !has(out, "HTTP_2 200 hello from api.test/a", "HTTP_1_1 200 hello from api.test/b", "https://evil.test/ failed: java.net.ConnectException") {
		t.Errorf("status %d: %s", status, out)
	}
}

// echo answers a request with its own body, as it comes.
var echo = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 has it anyway
	_, _ = io.Copy(w, r.Body)
})

// TestHTTP2: HTTP/2 passes, in both directions at once.
func TestHTTP2(t *testing.T) {
	w := newWorld(t)
	w.https(t, "api.test:443", echo)
	box := w.open(t, allow(t, "api.test"))
	for program, text := range map[string]string{
		"curl": `head -c 20000000 /dev/urandom >/tmp/sent && curl -sS --http2 -T /tmp/sent -o /tmp/got -w '%{http_version}' https://api.test/ && cmp /tmp/sent /tmp/got`,
		"node": `node -e '
const session = require("http2").connect("https://api.test", { ca: require("fs").readFileSync("/workspace/ca.pem") })
let left = 20
for (let i = 0; i < 20; i++) {
	const stream = session.request({ ":method": "POST", ":path": "/" + i }), sent = Buffer.alloc(200000, i)
	const got = []
	stream.on("data", d => got.push(d)).on("end", () => {
		if (!Buffer.concat(got).equals(sent)) { console.error("stream", i, "differs"); process.exit(1) }
		if (--left === 0) { process.stdout.write("2"); session.close() }
	})
	stream.end(sent)
}
session.on("error", e => { console.error(e); process.exit(1) })'`,
	} {
		t.Run(program, func(t *testing.T) {
			if _, status := sh(t, box, "command -v "+program); status != 0 {
				t.Skip("there is no " + program + " inside")
			}
			if out, status := sh(t, box, text); status != 0 || out != "2" {
				t.Errorf("status %d: %s", status, out)
			}
		})
	}
}

// webSocket agrees to WebSocket, and sends each message back until the other end closes.
var webSocket = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n\r\n")
	for {
		first, payload, err := readFrame(both.Reader)
		if err != nil {
			return
		}
		frame := []byte{first}
		switch {
		case len(payload) < 126:
			frame = append(frame, byte(len(payload)))
		case len(payload) < 1<<16:
			frame = binary.BigEndian.AppendUint16(append(frame, 126), uint16(len(payload)))
		default:
			frame = binary.BigEndian.AppendUint64(append(frame, 127), uint64(len(payload)))
		}
		if _, err := conn.Write(append(frame, payload...)); err != nil || first&0xf == 8 {
			return
		}
	}
})

// readFrame reads a frame of a WebSocket client (RFC 6455, section 5.2).
func readFrame(r *bufio.Reader) (first byte, payload []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1] & 0x7f)
	if size >= 126 {
		long := make([]byte, 8)
		if _, err := io.ReadFull(r, long[map[uint64]int{126: 6, 127: 0}[size]:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(long)
	}
	masked := make([]byte, 4+min(size, 1<<24))
	if _, err := io.ReadFull(r, masked); err != nil {
		return 0, nil, err
	}
	payload = masked[4:]
	for i := range payload {
		payload[i] ^= masked[i%4]
	}
	return head[0], payload, nil
}

// TestWebSocket: WebSocket passes, with TLS and without, and ends when rules close the host.
func TestWebSocket(t *testing.T) {
	if _, err := os.Stat("/usr/lib/python3/dist-packages/websockets"); err != nil {
		t.Skip("there are no WebSockets for Python")
	}
	w := newWorld(t)
	w.httpsWith(t, "api.test:443", webSocket, "http/1.1")
	plain := listen(t)
	w.add("api.test:80", plain)
	go func() { _ = http.Serve(plain, webSocket) }()
	box := w.open(t, allow(t, "api.test"))
	const client = `
import asyncio, ssl, sys, websockets
async def main(url, stay):
    context = ssl.create_default_context(cafile="/workspace/ca.pem") if url.startswith("wss:") else None
    async with websockets.connect(url, ssl=context, max_size=None, compression=None, open_timeout=100, ping_interval=None) as ws:
        for message in ["hello", "x" * 200, "y" * 100000, bytes(range(256)) * 8192]:
            await ws.send(message)
            assert await ws.recv() == message
        print("echoed", flush=True)
        if stay:
            try: print("got", await ws.recv())
            except websockets.ConnectionClosedError: print("cut")
asyncio.run(main(sys.argv[1], len(sys.argv) > 2))
`
	for _, url := range []string{"wss://api.test/", "ws://api.test/"} {
		if out := python(t, box, client, url); out != "echoed\n" {
			t.Errorf("%s: %s", url, out)
		}
		cmd := box.Command(t.Context(), "/usr/bin/python3", "-c", client, url, "stay")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if line, err := lines.ReadString('\n'); line != "echoed\n" {
			t.Errorf("%s: %q, %v", url, line, err)
		}
		closed := policy.Network{Mode: policy.NetworkAllow, Limits: policy.NetworkLimits{Connections: 16}}
		if err := box.SetNetwork(t.Context(), closed); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); line != "cut\n" {
			t.Errorf("%s after the rules: %q, %v", url, line, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := box.SetNetwork(t.Context(), allow(t, "api.test")); err != nil {
			t.Fatal(err)
		}
	}
}
