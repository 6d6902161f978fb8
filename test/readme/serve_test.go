//go:build linux

package readme

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// token is what "paddock token create" has printed.
var token string

// bearer adds a token to each request.
type bearer struct{}

func (bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return http.DefaultTransport.RoundTrip(r)
}

// dial awaits what listens at an address.
func dial(t *testing.T, network, address string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial(network, address)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// asModel has a model run a command by a server of the protocol, and looks into
// the answer.
func asModel(t *testing.T, transport sdk.Transport, want string) {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "reader", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "echo made by a model >by-a-model; cat by-a-model; ls -a"}})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, c := range result.Content {
		if part, ok := c.(*sdk.TextContent); ok {
			text.WriteString(part.Text)
		}
	}
	if !strings.Contains(text.String(), "made by a model") || !strings.Contains(text.String(), want) {
		t.Errorf("the model was given\n%s\nwithout %q", text.String(), want)
	}
}

// startsAs is the transport of a server that a configuration starts.
func startsAs(t *testing.T, dir, program string, args []string) sdk.Transport {
	t.Helper()
	words := append([]string{"exec", quote(program)}, args...)
	for i := range args {
		words[i+2] = quote(args[i])
	}
	cmd := as(t.Context(), "cd "+dir+"\n"+strings.Join(words, " "))
	cmd.Stderr = os.Stderr
	return &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// servers are those of a client's configuration.
type servers struct {
	MCPServers map[string]struct {
		Command string
		Args    []string
	}
}

func (s servers) try(t *testing.T, dir, want string) {
	t.Helper()
	if len(s.MCPServers) != 1 {
		t.Fatalf("%d servers, want 1", len(s.MCPServers))
	}
	for _, server := range s.MCPServers {
		asModel(t, startsAs(t, dir, server.Command, server.Args), want)
	}
}

// installed starts the server as the installed configuration of the project says.
func installed(t *testing.T, _ string) {
	data, err := os.ReadFile(home + "/.claude.json")
	if err != nil {
		t.Fatal(err)
	}
	var settings struct{ Projects map[string]servers }
	if err := json.Unmarshal(data, &settings); err != nil {
		t.Fatal(err)
	}
	settings.Projects[home+"/src/app"].try(t, home+"/src/app", "notes.txt")
}

// written starts the server of the README's own configuration.
func written(t *testing.T, _ string) {
	data, err := os.ReadFile(home + "/mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	var settings servers
	if err := json.Unmarshal(data, &settings); err != nil {
		t.Fatal(err)
	}
	settings.try(t, home, "by-a-model")
	if _, err := os.Stat("/path/to/project/by-a-model"); err != nil {
		t.Error(err)
	}
}

// overHTTP asks the server as the principal with the token, and as nobody.
func overHTTP(t *testing.T) {
	dial(t, "tcp", "127.0.0.1:8765")
	const url = "http://127.0.0.1:8765/mcp"
	asModel(t, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{}}}, "notes.txt")
	answer, err := http.Post(url, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %s", answer.Status)
	}
}

// startsNumber starts a process with the number that the README names, in
// namespaces of its own. The kernel gives the number that follows the last one.
func startsNumber(t *testing.T) func() {
	t.Helper()
	if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte("4710"), 0); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("setpriv", "--reuid=dev", "--regid=dev", "--init-groups", "unshare", "--map-root-user", "--net", "--uts", "sleep", "infinity")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if cmd.Process.Pid != 4711 {
		stop()
		t.Fatalf("the process has the number %d", cmd.Process.Pid)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if name, _ := os.ReadFile("/proc/4711/comm"); string(name) == "sleep\n" {
			return stop
		}
	}
	stop()
	t.Fatal("the process does not start")
	return nil
}
