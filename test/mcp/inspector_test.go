//go:build linux

package mcp

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// TestInspectorHTTP lists the tools with the official inspector's command line, over HTTP,
// and calls one well and one wrongly: each call is a client, and a session, of its own.
// Every tool over HTTP is TestToolsHTTP's.
func TestInspectorHTTP(t *testing.T) {
	boxtest.RequireWalls(t)
	requireSuites(t)
	requireTime(t)
	t.Parallel()
	s := everything(t)
	token := s.token(t, localPrincipal(t), s.workspace, "--with-privileges")
	h := startHTTP(t, s)
	i := newInspector(t, "--cli", h.url, "--transport", "http", "--connect-timeout", "0", "--header", "Authorization: Bearer "+token)
	i.lists(t, h.connect(t, token).tools(t), "--method", "tools/list", "--format", "json")
	exec := func(args string) answer {
		return i.answer(t, "--method", "tools/call", "--tool-name", "exec", "--tool-args-json", args, "--format", "json")
	}
	if got := exec(`{"command":"echo over HTTP"}`); got.failed || !strings.Contains(got.text, "over HTTP") {
		t.Errorf("one call over HTTP: %+v", got)
	}
	if got := exec(`{"comand":"echo over HTTP"}`); !got.failed || !strings.Contains(got.text, "comand") {
		t.Errorf("one wrong call over HTTP: %+v", got)
	}
}

// TestInspectorStdio does so over standard input and output, where one server has to stay for
// all calls: the inspector's program for connections that stay has it. The one for single calls
// is tried as well. Every tool is TestTools'.
func TestInspectorStdio(t *testing.T) {
	boxtest.RequireWalls(t)
	requireSuites(t)
	requireTime(t)
	t.Parallel()
	s := everything(t)
	tools := startStdio(t, s).tools(t)
	command := s.command()
	single := newInspector(t, append(append([]string{"--cli"}, command.Args...), "--connect-timeout", "0")...)
	for _, one := range s.added() {
		single.flags = append(single.flags, "-e", one) // it hands on nothing by itself
	}
	single.lists(t, tools, "--method", "tools/list", "--format", "json")
	if got := single.answer(t, "--method", "tools/call", "--tool-name", "exec", "--tool-args-json", `{"command":"echo over stdio"}`, "--format", "json"); got.failed || !strings.Contains(got.text, "over stdio") {
		t.Errorf("one call over standard input and output: %+v", got)
	}

	stays := newInspector(t, "--format", "json", "--connection", "paddock")
	stays.program = "mcpdo"
	stays.env = append(stays.env, "MCP_INSPECTOR_DAEMON_DIR="+shortDir(t), "MCP_INSPECTOR_DAEMON_TOKEN=for-this-test-alone")
	config := filepath.Join(t.TempDir(), "servers.json")
	env := map[string]string{}
	for _, one := range s.added() {
		name, value, _ := strings.Cut(one, "=")
		env[name] = value
	}
	data, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"paddock": map[string]any{
		"command": command.Path, "args": command.Args[1:], "env": env,
	}}})
	if err == nil {
		err = os.WriteFile(config, data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	stays.flags = append(stays.flags, "--config", config)
	t.Cleanup(func() { stays.run(t, "daemon", "stop") })
	if out, errOut, status := stays.run(t, "connect", "paddock", "--connect-timeout", "0"); status != 0 {
		t.Fatalf("it does not connect: %s%s", out, errOut)
	}
	stays.lists(t, tools, "tools/list")
	for _, one := range []struct {
		tool, args, want string
		failed           bool
	}{
		{"exec", `{"command":"echo it stays >stays; echo over a connection"}`, "over a connection", false},
		{"file_read", `{"path":"stays"}`, "it stays", false}, // of the same sandbox
		{"sandbox_list", `{}`, "", false},
		{"version", `{}`, "", false},
		{"exec", `{"comand":"echo"}`, "comand", true},
	} {
		got := stays.answer(t, "tools/call", one.tool, "--tool-args-json", one.args)
		if got.failed != one.failed || !strings.Contains(got.text, one.want) {
			t.Errorf("%s %s: %+v", one.tool, one.args, got)
		}
	}
}

// inspector is a program of the official inspector's, with the flags of a server.
type inspector struct {
	program string
	flags   []string
	env     []string
}

func newInspector(t *testing.T, flags ...string) *inspector {
	t.Helper()
	return &inspector{"inspector", flags, []string{"HOME=" + t.TempDir()}}
}

// shortDir is a directory whose path has room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pm") //nolint:usetesting // t.TempDir's path is too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// run may be called at the end of a test, too.
func (i *inspector) run(t *testing.T, args ...string) (out, errOut string, status int) {
	t.Helper()
	return node(context.WithoutCancel(t.Context()), t, i.env, i.program, append(slices.Clone(i.flags), args...)...)
}

// lists compares the tools that the inspector is told of.
func (i *inspector) lists(t *testing.T, tools map[string]*sdk.Tool, list ...string) {
	t.Helper()
	out, errOut, status := i.run(t, list...)
	var told struct {
		Tools  []sdk.Tool
		Result struct{ Tools []sdk.Tool }
	}
	if err := json.Unmarshal([]byte(out), &told); err != nil || status != 0 {
		t.Fatalf("tools/list ended with %d: %v\n%s%s", status, err, out, errOut)
	}
	var names []string
	for _, tool := range append(told.Tools, told.Result.Tools...) {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	if want := slices.Sorted(maps.Keys(tools)); !slices.Equal(names, want) {
		t.Errorf("the inspector lists %v, want %v", names, want)
	}
}

// answer is what the inspector prints of a call: the result, or an error.
func (i *inspector) answer(t *testing.T, args ...string) answer {
	t.Helper()
	out, errOut, status := i.run(t, args...)
	var told struct{ Result json.RawMessage }
	result := &sdk.CallToolResult{}
	err := json.Unmarshal([]byte(out), &told)
	if err == nil && told.Result == nil {
		told.Result = json.RawMessage(out)
	}
	if err == nil {
		err = json.Unmarshal(told.Result, result)
	}
	if err != nil {
		t.Fatalf("%v ended with %d: %v\n%s%s", args, status, err, out, errOut)
	}
	checkText(t, result)
	structured, err := json.Marshal(result.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if (status != 0) != result.IsError {
		t.Errorf("%v ended with %d: %s", args, status, errOut)
	}
	return answer{textOf(result), structured, result.IsError}
}
