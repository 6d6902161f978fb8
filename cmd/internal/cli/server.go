package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/table"
	"github.com/paddock-dev/paddock/wire"
)

// serverName is the program beside paddock that has the same command line, with all of
// [Program] linked. It is twice as large, and starts more slowly.
const serverName = "paddock-server"

// keepServer is the hint if serverName is missing.
const keepServer = "keep " + serverName + " beside paddock; it comes with: go install github.com/paddock-dev/paddock/cmd/...@latest"

// becomeServer executes paddock-server in place of this program, with the same
// arguments, and returns why it could not.
func becomeServer() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	state, err := paddock.DefaultStateDir()
	if err != nil {
		return err
	}
	way, err := hostpath.NewSeen(hostpath.List(state)).TrustProgram(backend.OwnFile{Path: filepath.Join(filepath.Dir(self), serverName), What: serverName})
	if err != nil {
		return err
	}
	return &paddock.Error{Message: "cannot start " + way.Path + ": " + syscall.Exec(way.Path, os.Args, os.Environ()).Error(), Hint: keepServer}
}

// mcpCommand returns the command that serves models, which is not an operation.
// withFlags is false if the command will not be used.
func (a *App) mcpCommand(withFlags bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   "mcp [flags]",
		Short:                 "Serve models over the Model Context Protocol",
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
		RunE:                  func(*cobra.Command, []string) error { return nil }, // listed in help texts
	}
	switch {
	case !withFlags:
	case a.program.MCP != nil:
		a.program.MCP(a, cmd)
	default:
		a.leaveToServer(cmd)
	}
	return cmd
}

// leaveToServer makes cmd execute paddock-server, also for help and completion, since only
// that program defines the flags.
func (a *App) leaveToServer(cmd *cobra.Command) {
	cmd.DisableFlagParsing = true
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
			return cmd.Help()
		}
		err := becomeServer()
		// A client on standard input gets the reason as an answer.
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.ParseErrorsAllowlist.UnknownFlags = true
		profile := flags.String("profile", op.ProfileWorkspace.String(), "")
		flags.String("http", "", "")
		if wrong := flags.Parse(args); wrong == nil && (flags.NArg() > 0 || flags.Changed("http")) {
			return err
		}
		return a.Explain(err, *profile)
	}
	cmd.SetHelpFunc(func(*cobra.Command, []string) {
		err := becomeServer()
		fmt.Println(cmd.Short + ".")
		report(os.Stderr, fmt.Errorf("cannot list the flags: %w", err))
	})
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		_ = becomeServer() // without it nothing is offered
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// Explain reports why the server for models cannot start. If a client has started it,
// Explain also answers that client's calls with the reason: most clients drop a server that
// ends without an answer, and models then continue with their other tools. It offers the
// tools of the named profile. Explain returns nil if it has reported err.
func (a *App) Explain(err error, profile string) error {
	if err == nil || term.IsTerminal(int(os.Stdin.Fd())) {
		return err
	}
	a.status = report(os.Stderr, err)
	var reasons bytes.Buffer
	report(&reasons, err)
	b := broken{reason: reasons.String() + "No tool of this server works until the cause is removed and the client is started again: tell your user."}
	offered, unknown := ParseProfile(profile)
	if unknown != nil {
		offered = op.ProfileWorkspace
	}
	for _, o := range table.All() {
		if !o.Local && offered.Offers(o.Profile) {
			b.tools = append(b.tools, brokenTool{o.Name, o.Summary, json.RawMessage(`{"type":"object"}`)})
		}
	}
	b.serve(os.Stdin, os.Stdout)
	return nil
}

// broken is a replacement for a server that cannot start, with the same tools. It answers
// every call with the reason.
type broken struct {
	reason string
	tools  []brokenTool
}

type brokenTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
}

// serve answers messages until the input ends, or the output is closed.
func (b broken) serve(in io.Reader, out io.Writer) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, op.MaxInput+1<<16)
	for lines.Scan() {
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var answer any
		if one := b.reply(text); one != nil {
			answer = one
		}
		var several []json.RawMessage
		if json.Unmarshal(text, &several) == nil && len(several) > 0 {
			var all []*brokenReply
			for _, part := range several {
				if one := b.reply(part); one != nil {
					all = append(all, one)
				}
			}
			if answer = all; len(all) == 0 {
				answer = nil
			}
		}
		if answer == nil {
			continue
		}
		text, err := json.Marshal(answer)
		if err != nil {
			return
		}
		if _, err := out.Write(append(text, '\n')); err != nil {
			return
		}
	}
}

// brokenReply is the answer to one message.
type brokenReply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // null if nil
	Result  any             `json:"result,omitempty"`
	Error   any             `json:"error,omitempty"`
}

// reply returns the answer to a message, nil if it needs none.
func (b broken) reply(text []byte) *brokenReply {
	refused := func(id json.RawMessage, code int, cause string) *brokenReply {
		return &brokenReply{"2.0", id, nil, map[string]any{"code": code, "message": cause + ": the server cannot start"}}
	}
	var req struct {
		ID     json.RawMessage `json:"id"`
		Method *string         `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
		Params json.RawMessage `json:"params"`
	}
	switch err := json.Unmarshal(text, &req); {
	case !json.Valid(text):
		return refused(nil, -32700, "the message is not JSON")
	case err == nil && req.Method != nil && len(req.ID) == 0, err == nil && req.Method == nil && req.Result != nil, req.Error != nil:
		return nil // a notification, or an answer
	case err != nil || req.Method == nil:
		return refused(req.ID, -32600, "the message is not a request")
	}
	var params struct {
		Revision string `json:"protocolVersion"`
	}
	_ = json.Unmarshal(req.Params, &params) // the answer is the reason even if they are invalid
	if result := b.answer(*req.Method, params.Revision); result != nil {
		return &brokenReply{"2.0", req.ID, result, nil}
	}
	return refused(req.ID, -32601, "unknown method "+*req.Method)
}

// answer returns the result of a method, nil if it is unknown.
func (b broken) answer(method, revision string) any {
	switch method {
	case "initialize":
		if !slices.Contains([]string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}, revision) {
			revision = "2025-11-25"
		}
		return map[string]any{
			"protocolVersion": revision,
			"capabilities":    map[string]any{"tools": map[string]any{}},
			"serverInfo":      map[string]any{"name": "paddock", "version": wire.Build},
			"instructions":    b.reason,
		}
	case "ping":
		return map[string]any{}
	case "tools/list":
		return map[string]any{"tools": b.tools}
	case "tools/call":
		return map[string]any{"isError": true, "content": []any{map[string]any{"type": "text", "text": b.reason}}}
	}
	return nil
}
