//go:build linux

package mcp

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// wrapped is an agent in "paddock wrap": what it is called with, and how its model calls tools.
type wrapped struct {
	pkg     string
	program func(modules string) string
	args    []string // before the prompt
	host    string   // of its API
	shell   func(command string) called
	write   func(file, text string) called
	env     []string // inside
	// login are files of its configuration, by their names in the home, and proof the
	// authorization that a request has with them.
	login map[string]string
	proof string
	// key is the variable that it takes a key from, and keyProof what a request then has.
	key      string
	keyProof string // "HEADER: …{}"
}

// hook is what commands leave in the agents' configuration.
const hook = "hook-of-commands"

var wrappedAgents = map[string]wrapped{
	"claude": {
		pkg: "@anthropic-ai/claude-code",
		program: func(modules string) string {
			arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
			if arch == "" {
				arch = runtime.GOARCH
			}
			return filepath.Join(modules, "@anthropic-ai", "claude-code-linux-"+arch, "claude")
		},
		args: []string{"-p"},
		host: "api.anthropic.com",
		shell: func(command string) called {
			return called{name: "Bash", args: object("command", command, "description", "run it")}
		},
		write: func(file, text string) called {
			return called{name: "Write", args: object("file_path", "/workspace/"+file, "content", text)}
		},
		login: map[string]string{
			".claude/.credentials.json": `{"claudeAiOauth":{"accessToken":"sk-ant-oat01-access","refreshToken":"sk-ant-ort01-refresh","expiresAt":4102444800000,"scopes":["user:inference","user:profile"],"subscriptionType":"pro"}}`,
			".claude.json":              `{"hasCompletedOnboarding":true}`,
		},
		proof: "Authorization: Bearer sk-ant-oat01-access",
		key:   "ANTHROPIC_API_KEY", keyProof: "X-Api-Key: {}",
	},
	"codex": {
		pkg:     "@openai/codex",
		program: func(modules string) string { return filepath.Join(modules, ".bin", "codex") },
		args:    []string{"exec", "--skip-git-repo-check", "--model", "scripted"},
		host:    "api.openai.com",
		shell: func(command string) called {
			// It would give a command that takes longer than ten seconds, on a busy machine, to a later call.
			return called{name: "exec_command", args: strings.TrimSuffix(object("cmd", command), "}") + `,"yield_time_ms":30000}`}
		},
		write: func(file, text string) called {
			return called{name: "exec_command", args: object("cmd", "apply_patch <<'E'\n*** Begin Patch\n*** Add File: "+file+"\n+"+text+"\n*** End Patch\nE")}
		},
		login: map[string]string{
			".codex/auth.json": `{"auth_mode":"apikey","OPENAI_API_KEY":"sk-key-of-the-file"}`,
		},
		proof: "Authorization: Bearer sk-key-of-the-file",
		key:   "OPENAI_API_KEY", keyProof: "Authorization: Bearer {}",
	},
	"gemini": {
		pkg:     "@google/gemini-cli",
		program: func(modules string) string { return filepath.Join(modules, ".bin", "gemini") },
		args:    []string{"--model", "gemini-2.5-pro", "-p"}, // else it asks first which model to use
		host:    "generativelanguage.googleapis.com",
		shell: func(command string) called {
			return called{name: "run_shell_command", args: object("command", command)}
		},
		write: func(file, text string) called {
			return called{name: "write_file", args: object("file_path", "/workspace/"+file, "content", text)}
		},
		env: []string{"GEMINI_CLI_TRUST_WORKSPACE=true"},
		key: "GEMINI_API_KEY", keyProof: "X-Goog-Api-Key: {}",
	},
}

// object returns a JSON object of texts.
func object(pairs ...string) string {
	all := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // not for texts
	}
	return string(text)
}

// TestClientWrapped lets real agents work inside: a command, a file, and changes to their own
// configuration, of which nothing comes back. With a key nothing inside ever has it.
func TestClientWrapped(t *testing.T) {
	for name, w := range wrappedAgents {
		if w.login != nil {
			t.Run(name+" with a login", func(t *testing.T) { w.works(t, name, false) })
		}
		t.Run(name+" with a key", func(t *testing.T) { w.works(t, name, true) })
	}
}

func (w wrapped) works(t *testing.T, name string, withKey bool) {
	t.Helper()
	a := newAgent(t, w.pkg)
	models := newModels(t, a.workspace)
	proof, secret := w.proof, w.proof[strings.LastIndexByte(w.proof, ' ')+1:]
	env := []string{"SSL_CERT_FILE=" + filepath.Join(a.workspace, "ca.pem")} // whom the egress process trusts
	if withKey {
		secret = "sk-" + strings.ToLower(rand.Text())
		proof = strings.Replace(w.keyProof, "{}", secret, 1)
		env = append(env, w.key+"="+secret)
	} else {
		if name == "claude" { // whose login is inside: nobody looks into its TLS
			w.env = append(w.env, "NODE_EXTRA_CA_CERTS=/workspace/ca.pem")
		}
		for file, text := range w.login {
			if err := os.MkdirAll(filepath.Join(a.home, filepath.Dir(file)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(a.home, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := treeOf(t, a.home)
	models.calls = []called{
		w.shell("pwd; ls -d /home/* /root; echo made by a command >made"),
		w.write("written", "written by a tool"),
		w.shell("for f in ~/.claude/settings.json ~/.claude/hooks/x ~/.claude.json ~/.codex/config.toml ~/.codex/hooks.json ~/.gemini/settings.json; do mkdir -p $(dirname $f); echo " + hook + " >$f; done"),
		// The brackets keep the command from finding itself.
		w.shell("grep -rls '[" + secret[:1] + "]" + secret[1:] + "' /proc/[0-9]*/environ /proc/[0-9]*/cmdline /home /workspace /tmp /etc /run; echo searched"),
	}
	r := w.start(t, a, models, env...)
	if err := <-r.done; err != nil {
		t.Errorf("%v\n%s", err, r.said)
	}
	models.check(t, proof)
	outputs := models.outputs()
	if len(outputs) != len(models.calls) {
		t.Fatalf("the model was given %q\n%s", outputs, r.said)
	}
	if !strings.Contains(outputs[0], "/workspace") || !strings.Contains(outputs[0], "/home/agent") || strings.Contains(outputs[0], a.home) {
		t.Errorf("the first command printed %q", outputs[0])
	}
	outside := withKey || name == "codex" // whose file has a key
	if found := strings.Contains(outputs[3], "/home/agent"); !strings.Contains(outputs[3], "searched") || found == outside || outside && strings.Contains(outputs[3], "/proc/") {
		t.Errorf("the key must be outside: %v; the search inside printed %q", outside, outputs[3])
	}
	if outside && strings.Contains(models.bodies(), secret) {
		t.Error("a request's body has the key")
	}
	for file, want := range map[string]string{"made": "made by a command", "written": "written by a tool"} {
		if text, err := os.ReadFile(filepath.Join(a.workspace, file)); err != nil || strings.TrimSpace(string(text)) != want {
			t.Errorf("%s has %q: %v", file, text, err)
		}
	}
	for file, text := range treeOf(t, a.home) {
		if before[file] != text && !strings.HasPrefix(file, "state/") && !strings.HasPrefix(file, ".local/state/paddock/") { // Paddock's own
			t.Errorf("%s on the host is now %q", file, text)
		}
		if withKey && strings.Contains(text, secret) {
			t.Errorf("%s on the host has the key", file)
		}
	}
	if !strings.Contains(r.said.String(), "paddock: "+name+" runs inside: it reaches "+w.host+":443") || strings.Contains(r.said.String(), secret) {
		t.Errorf("what was said of what runs:\n%s", r.said)
	}
}

// start starts the agent in "paddock wrap", behind the test's own network.
func (w wrapped) start(t *testing.T, a *agent, m *models, env ...string) *running {
	t.Helper()
	modules, err := filepath.Abs(filepath.Dir(suites))
	if err != nil {
		t.Fatal(err)
	}
	a.env = append(a.env, "HTTPS_PROXY=http://"+m.proxy, "ALL_PROXY=http://"+m.proxy, "NO_PROXY=", "OPENAI_API_KEY=", "GEMINI_CLI_TRUST_WORKSPACE=true")
	a.env = append(a.env, env...)
	args := []string{"wrap", "--unasked"}
	for _, v := range w.env {
		args = append(args, "--env", v)
	}
	args = append(append(args, "--", w.program(modules)), w.args...)
	return a.start(t, filepath.Join(a.home, "bin", "paddock"), append(args, "Do what the script says.")...)
}

// treeOf returns the regular files below a directory, but for programs, with what they have.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(at string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		rel, _ := filepath.Rel(dir, at)
		text, err := os.ReadFile(at)
		files[rel] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// models are the servers of models, by their real names, in a network of the test's own: the
// operator's proxy, which leads every name to one server with a certificate for it.
type models struct {
	proxy string
	calls []called

	mu    sync.Mutex
	given []string // outputs of tools, of the longest conversation
	heads []http.Header
	all   strings.Builder // the bodies of all requests
	odd   []string
	asked int
}

// newModels starts the network, and writes its authority to ca.pem of a directory.
func newModels(t *testing.T, dir string) *models {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	from, to := time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the test's authority"}, NotBefore: from, NotAfter: to,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	own, err := x509.CreateCertificate(rand.Reader, root, root, &key.PublicKey, key)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "ca.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own}), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	m := &models{}
	server := &http.Server{Handler: m, TLSConfig: &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		leaf := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: hello.ServerName}, NotBefore: from, NotAfter: to, DNSNames: []string{hello.ServerName}}
		der, err := x509.CreateCertificate(rand.Reader, leaf, root, &key.PublicKey, key)
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
	}}}
	behind, front := listenLoopback(t), listenLoopback(t)
	go func() { _ = server.ServeTLS(behind, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	m.proxy = front.Addr().String()
	go func() {
		for {
			conn, err := front.Accept()
			if err != nil {
				return
			}
			go connect(conn, behind.Addr().String())
		}
	}()
	return m
}

func listenLoopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect answers CONNECT to any name with one server.
func connect(conn net.Conn, to string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	if request, err := http.ReadRequest(r); err != nil || request.Method != http.MethodConnect {
		return
	}
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(server, r)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(conn, server)
}

func (m *models) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.Write(body)
	if strings.Contains(r.URL.Path, ":streamGenerateContent") || strings.Contains(r.URL.Path, ":generateContent") {
		m.generate(w, r, body)
		return
	}
	messages := strings.HasSuffix(r.URL.Path, "/messages")
	if r.Method != http.MethodPost || !messages && !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	m.heads = append(m.heads, r.Header.Clone())
	var req request
	if err := json.Unmarshal(body, &req); err != nil {
		m.odd = append(m.odd, fmt.Sprintf("%s: %v: %.200s", r.URL.Path, err, body))
	}
	for _, message := range req.Messages {
		var parts []json.RawMessage
		if json.Unmarshal(message.Content, &parts) == nil {
			req.Input = append(req.Input, parts...)
		}
	}
	var given []string
	for _, item := range req.Input {
		if one, ok := outputOf(item, "call_"); ok {
			given = append(given, one.text)
		}
	}
	next := m.next(given, len(req.Tools) > 0)
	m.asked++
	if messages {
		answerMessages(w, fmt.Sprint("msg_", m.asked), next)
	} else {
		answerResponses(w, fmt.Sprint("resp_", m.asked), req.Stream, next)
	}
}

// next notes what the model was given so far, and returns its next call.
func (m *models) next(given []string, tools bool) *called {
	if len(given) > len(m.given) {
		m.given = given
	}
	if !tools || len(given) >= len(m.calls) {
		return nil
	}
	call := m.calls[len(given)]
	call.id = fmt.Sprintf("call_%d", len(given))
	return &call
}

// generate answers by the protocol of Gemini.
func (m *models) generate(w http.ResponseWriter, r *http.Request, body []byte) {
	m.heads = append(m.heads, r.Header.Clone())
	var req struct {
		Tools    []json.RawMessage
		Contents []struct {
			Parts []struct {
				FunctionResponse *struct{ Response json.RawMessage }
			}
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		m.odd = append(m.odd, fmt.Sprintf("%s: %v: %.200s", r.URL.Path, err, body))
	}
	var given []string
	for _, content := range req.Contents {
		for _, part := range content.Parts {
			if part.FunctionResponse != nil {
				given = append(given, string(part.FunctionResponse.Response))
			}
		}
	}
	part := map[string]any{"text": "done"}
	if next := m.next(given, len(req.Tools) > 0); next != nil {
		part = map[string]any{"functionCall": map[string]any{"name": next.name, "args": json.RawMessage(next.args)}}
	}
	text, err := json.Marshal(map[string]any{
		"candidates":    []any{map[string]any{"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0}},
		"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	})
	if err != nil {
		panic(err) // not for what is above
	}
	if strings.Contains(r.URL.Path, ":stream") {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n\n", text) // the client may have gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text) // as above
}

// bodies returns what all requests had in their bodies.
func (m *models) bodies() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all.String()
}

// outputs returns what the model was given for its calls.
func (m *models) outputs() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.given
}

// check reports what went wrong, and requests without the proof of who asks.
func (m *models) check(t *testing.T, proof string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, what := range m.odd {
		t.Error(what)
	}
	if len(m.heads) == 0 {
		t.Error("the model was not asked")
	}
	header, value, _ := strings.Cut(proof, ": ")
	for _, head := range m.heads {
		if got := head.Values(header); len(got) != 1 || got[0] != value {
			t.Errorf("a request has %s %q, want %q", header, got, value)
		}
	}
}
