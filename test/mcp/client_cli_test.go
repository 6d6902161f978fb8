//go:build linux

package mcp

import (
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// cli lets a client of the command line work, once for the tasks, and once for a
// long command that is aborted.
func (a *agent) cli(t *testing.T, program string, args ...string) {
	t.Helper()
	program = filepath.Join(a.home, "node_modules", ".bin", program)
	r := a.start(t, program, append(args, "Run the script tasks.")...)
	if err := <-r.done; err != nil {
		t.Errorf("%v\n%s", err, r.said)
	}
	r = a.start(t, program, append(args, "Run the script long.")...)
	a.abort(t, r, syscall.SIGINT)
	err := <-r.done // how it ends then is its own affair
	a.check(t)
	if t.Failed() {
		t.Logf("%v\n%s", err, r.said)
	}
}

// codex lets it work with a model of its own provider's.
func (a *agent) codex(t *testing.T, more ...string) {
	t.Helper()
	a.install(t, "--client", "codex")
	a.cli(t, "codex", append([]string{"exec", "--skip-git-repo-check", "-c", `model_provider="scripted"`,
		"-c", `model_providers.scripted={name="scripted",base_url="` + a.model.url + `",wire_api="responses"}`}, more...)...)
}

// TestClientCodex is codex as it comes: its models write code that calls tools.
func TestClientCodex(t *testing.T) {
	newAgent(t, "@openai/codex").codex(t)
}

// TestClientCodexFunctions is codex with a model that it does not know, and gives
// tools as functions.
func TestClientCodexFunctions(t *testing.T) {
	a := newAgent(t, "@openai/codex")
	a.name += ", functions"
	a.codex(t, "--model", "scripted", "-c", "tool_output_token_limit=10000") // as for models that it knows
}

// TestClientClaude is Claude Code in its mode for programs.
func TestClientClaude(t *testing.T) {
	a := newAgent(t, "@anthropic-ai/claude-code")
	a.env = append(a.env, "ANTHROPIC_BASE_URL="+a.model.url, "ANTHROPIC_API_KEY=none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	a.install(t, "--client", "claude-code")
	arch := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if arch == "" {
		arch = runtime.GOARCH
	}
	a.cli(t, "../@anthropic-ai/claude-code-linux-"+arch+"/claude", "-p")
}
