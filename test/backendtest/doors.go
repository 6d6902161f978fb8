//go:build linux

package backendtest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/paddock-dev/paddock/policy"
)

// commandsEnv says how many commands each session of these cells runs.
const commandsEnv = "PADDOCK_TEST_COMMANDS"

// commands returns how many commands a session runs.
func commands(unasked int) int {
	if n, err := strconv.Atoi(os.Getenv(commandsEnv)); err == nil && n > 0 {
		return n
	}
	return unasked
}

// inDoors is what a session's command is; its status tells that it has run.
const inDoors = "sh -c 'exit 7'"

func doorCells() []cell {
	return []cell{
		{name: "door: a session of the command line loses none of many commands", do: func(ctx context.Context, b *box) error {
			d, err := b.door(ctx, "session", "--json")
			if err != nil {
				return err
			}
			defer func() { _ = d.end() }()
			for i := range commands(100) {
				var answer struct {
					ExitCode *int `json:"exit_code"`
				}
				text, err := d.ask(map[string]any{"command": inDoors}, &answer)
				if err != nil || answer.ExitCode == nil || *answer.ExitCode != 7 {
					return fmt.Errorf("command %d: %w: %.500s", i, expected(err), text)
				}
			}
			return d.end()
		}},
		{name: "door: a session of MCP loses none of many commands", do: func(ctx context.Context, b *box) error {
			d, err := b.door(ctx, "mcp", "--profile", "full", "--structured")
			if err != nil {
				return err
			}
			defer func() { _ = d.end() }()
			var answer struct {
				Result struct {
					StructuredContent struct {
						ExitCode  *int   `json:"exit_code"`
						SessionID string `json:"session_id"`
					} `json:"structuredContent"`
				} `json:"result"`
			}
			call := func(id int, method string, params map[string]any) (string, error) {
				return d.ask(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params}, &answer)
			}
			if text, err := call(1, "initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"}}); err != nil {
				return fmt.Errorf("initialize: %w: %.500s", err, text)
			}
			if err := d.say(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
				return err
			}
			text, err := call(2, "tools/call", map[string]any{"name": "session_open", "arguments": map[string]any{}})
			id := answer.Result.StructuredContent.SessionID
			if err != nil || id == "" {
				return fmt.Errorf("session_open: %w: %.500s", expected(err), text)
			}
			for i := range commands(100) {
				answer.Result.StructuredContent.ExitCode = nil
				text, err := call(3+i, "tools/call", map[string]any{"name": "session_run", "arguments": map[string]any{"session_id": id, "command": inDoors}})
				if got := answer.Result.StructuredContent.ExitCode; err != nil || got == nil || *got != 7 {
					return fmt.Errorf("command %d: %w: %.500s", i, expected(err), text)
				}
			}
			return d.end()
		}},
	}
}

// errOther is the error of a call that was answered, but not as expected.
var errOther = errors.New("another answer")

func expected(err error) error {
	if err == nil {
		return errOther
	}
	return err
}

// door is a program of Paddock's that answers lines.
type door struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	ended bool
}

// door starts one, with the box's spec.
func (b *box) door(ctx context.Context, args ...string) (*door, error) {
	text, err := json.Marshal(b.s.Spec())
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.host.dir, "spec.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	command := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(programs.dir, "paddock"), args...)
		cmd.Dir, cmd.Stderr = b.host.dir, os.Stderr
		cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+filepath.Join(b.host.dir, "doors"))
		return cmd
	}
	if b.Backend.Name() == policy.BackendHost {
		me, err := user.Current()
		if err != nil {
			return nil, err
		}
		for _, who := range []string{"user:", "model:"} {
			if err := command("privilege", "grant", who+me.Username, "UNSANDBOXED_EXEC").Run(); err != nil {
				return nil, err
			}
		}
	}
	d := &door{cmd: command(append(args, "--spec", file)...)}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	d.out = bufio.NewReader(out)
	return d, d.cmd.Start()
}

func (d *door) say(line any) error {
	text, err := json.Marshal(line)
	if err == nil {
		_, err = d.in.Write(append(text, '\n'))
	}
	return err
}

// ask says a line, and decodes the next one that is an answer.
func (d *door) ask(line, answer any) (string, error) {
	if err := d.say(line); err != nil {
		return "", err
	}
	for {
		text, err := d.out.ReadString('\n')
		if err != nil {
			return text, err
		}
		var note struct {
			Method string `json:"method"`
		}
		if json.Unmarshal([]byte(text), &note) == nil && note.Method != "" {
			continue
		}
		return text, json.Unmarshal([]byte(text), answer)
	}
}

// end closes its input, and waits for its end.
func (d *door) end() error {
	if d.ended {
		return nil
	}
	d.ended = true
	_ = d.in.Close()
	return d.cmd.Wait()
}
