//go:build linux

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/stores"
)

// setup is where a server runs, and how.
type setup struct {
	workspace string
	state     string
	profile   string
	flags     []string
	fixtures  bool
	text      bool // answers are text alone, as they are by default
}

// plain is a server over an empty workspace with the default tools.
func plain(t *testing.T) setup {
	t.Helper()
	s := setup{workspace: publicDir(t), state: t.TempDir(), profile: "workspace"}
	t.Cleanup(func() { s.endAll(t) })
	return s
}

// endAll ends the sandboxes that outlive their servers.
func (s setup) endAll(t *testing.T) {
	t.Helper()
	opts := paddock.Options{StateDir: s.state, Agent: filepath.Join(binDir, "paddock-agent")}
	all, err := paddock.ListLasting(context.Background(), opts)
	if err != nil {
		t.Error(err)
	}
	for _, k := range all {
		if _, err := paddock.Remove(context.Background(), k.ID, true, opts); err != nil && !errors.Is(err, paddock.ErrNotFound) {
			t.Error(err)
		}
	}
}

// everything is a server with all tools that there are, with a host by name, whose
// principal holds every privilege where the tests can give it.
func everything(t *testing.T) setup {
	t.Helper()
	s := plain(t)
	s.profile, s.flags = "full", []string{"--allow", "example.com:80,443,8443", "--publish", "any"}
	if !privileged() {
		return s
	}
	for _, name := range []string{"ALTER_PRIVILEGES", "UNSANDBOXED_EXEC"} {
		s.paddock(t, "privilege", "grant", localPrincipal(t), name)
	}
	return s
}

// paddock runs another command of the program, which must succeed.
func (s setup) paddock(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "paddock"), args...)
	cmd.Env = s.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("paddock %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (s setup) env() []string { return append(os.Environ(), s.added()...) }

// added is what the environment has for this server.
func (s setup) added() []string {
	return []string{"PADDOCK_STATE_DIR=" + s.state, "PADDOCK_AGENT=" + filepath.Join(binDir, "paddock-agent")}
}

// command is the server as a client's configuration would start it.
func (s setup) command() *exec.Cmd {
	return s.program(append([]string{"--workspace", s.workspace}, s.flags...)...)
}

// program is paddock mcp with these flags.
func (s setup) program(flags ...string) *exec.Cmd {
	name := "paddock-server"
	if s.fixtures {
		name = "with-fixtures"
	}
	args := []string{"mcp", "--profile", s.profile}
	if !s.text {
		args = append(args, "--structured")
	}
	cmd := exec.Command(filepath.Join(binDir, name), append(args, flags...)...)
	cmd.Env = s.env()
	return cmd
}

// publicDir is an empty directory that every user reaches: root's sandboxes run
// as another one.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// notes is a buffer that many may write to.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

// client is one session with a server.
type client struct {
	session *sdk.ClientSession
	pid     int    // of the server, where the client started it
	log     *notes // what it said on standard error
}

// clientOptions are what tests want to hear of.
var clientOptions = &sdk.ClientOptions{}

// startStdio starts a server and speaks with it over standard input and output.
// At the end of the test the server has to end by itself, cleanly.
func startStdio(t *testing.T, s setup) *client {
	t.Helper()
	return startStdioWith(t, s, clientOptions)
}

func startStdioWith(t *testing.T, s setup, opts *sdk.ClientOptions) *client {
	t.Helper()
	cmd := s.command()
	log := &notes{}
	cmd.Stderr = log
	session, err := newClient(opts).Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: patience}, nil)
	if err != nil {
		t.Fatalf("cannot connect: %v\n%s", err, log)
	}
	c := &client{session: session, pid: cmd.Process.Pid, log: log}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("the server did not end as it should: %v\n%s", err, log)
		}
		if strings.Contains(log.String(), "panic") {
			t.Errorf("the server panicked:\n%s", log)
		}
	})
	return c
}

func newClient(opts *sdk.ClientOptions) *sdk.Client {
	return sdk.NewClient(&sdk.Implementation{Name: "paddock-test", Version: "1"}, opts)
}

// tools are all that the server offers, by their names.
func (c *client) tools(t *testing.T) map[string]*sdk.Tool {
	t.Helper()
	all := make(map[string]*sdk.Tool)
	for tool, err := range c.session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		all[tool.Name] = tool
	}
	return all
}

// try calls a tool; an error of the protocol's fails the test.
func (c *client) try(t *testing.T, tool string, args any) *sdk.CallToolResult {
	t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	got, err := c.session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, c.log)
	}
	checkText(t, got)
	return got
}

// call calls a tool that must succeed, and gives its structured content.
func (c *client) call(t *testing.T, tool string, args any) map[string]any {
	t.Helper()
	got := c.try(t, tool, args)
	if got.IsError {
		t.Fatalf("%s %s: %s", tool, clip(args), textOf(got))
	}
	return schemaMap(t, got.StructuredContent)
}

// refused calls a tool that must fail, and gives what it says.
func (c *client) refused(t *testing.T, tool string, args any) string {
	t.Helper()
	got := c.try(t, tool, args)
	if !got.IsError {
		t.Fatalf("%s %s was done: %s", tool, clip(args), textOf(got))
	}
	return textOf(got)
}

// textOf is what a model reads of an answer.
func textOf(r *sdk.CallToolResult) string {
	var b strings.Builder
	for _, part := range r.Content {
		if t, ok := part.(*sdk.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// budget is how many characters an answer may have.
const budget = 40000

// checkText looks for what no answer may have: nothing to read, control
// characters, more than the budget.
func checkText(t *testing.T, r *sdk.CallToolResult) {
	t.Helper()
	text := textOf(r)
	if text == "" {
		t.Error("the answer has no text")
	}
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c <= 0x9f {
			t.Errorf("the answer has the control character %U: %s", c, clip(text))
			break
		}
	}
	data, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if n := len([]rune(text)) + len([]rune(string(data))); n > budget {
		t.Errorf("the answer has %d characters", n)
	}
}

// schemaMap is a JSON value as a map.
func schemaMap(t *testing.T, v any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("%v is no object: %v", v, err)
	}
	return m
}

// alive says whether a process runs, zombies aside.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && syscall.Kill(pid, 0) == nil
}

// localPrincipal is who asks over standard input.
func localPrincipal(t *testing.T) string {
	t.Helper()
	who := stores.Local("")
	if who == nil {
		t.Fatal("nobody is known")
	}
	return privilege.ModelOf(who).Name
}

// TestMissingProgramWithoutAShell: a sandbox of one program has nothing to explain a missing one
// with. The call is answered, and the server lives on.
func TestMissingProgramWithoutAShell(t *testing.T) {
	boxtest.RequireWalls(t)
	root := publicDir(t)
	program, err := os.ReadFile(filepath.Join(binDir, "paddock-agent"))
	if err == nil {
		err = errors.Join(os.Mkdir(root+"/bin", 0o755), os.WriteFile(root+"/bin/one", program, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	s := plain(t)
	s.profile, s.flags = "full", []string{"--rootfs", root}
	c := startStdio(t, s)
	for _, tool := range []string{"run", "exec"} {
		if got := c.refused(t, tool, map[string]any{"argv": []string{"nosuch"}}); !strings.Contains(got, "cannot run nosuch: not found in the sandbox's PATH\nhint: ") {
			t.Errorf("%s: %s", tool, got)
		}
		if got := c.call(t, tool, map[string]any{"argv": []string{"one", "--version"}}); got["exit_code"] != 0.0 {
			t.Errorf("%s: %v", tool, got)
		}
	}
}
