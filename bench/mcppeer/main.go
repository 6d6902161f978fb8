// Command mcppeer is what paddock mcp is compared with: a server of the same SDK
// with one tool, exec, that forks and executes what it is told on the host itself,
// without a wall. It speaks over standard input and output, or with --http ADDR
// over HTTP.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

type input struct {
	Argv []string `json:"argv"`
}

type output struct {
	ExitCode int    `json:"exit_code"`
	Stdout   string `json:"stdout"`
}

func main() {
	address := flag.String("http", "", "listen at `ADDR`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	err := serve(ctx, *address)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mcppeer:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address string) error {
	s := sdk.NewServer(&sdk.Implementation{Name: "mcppeer", Version: "1"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: "exec", Description: "Run a command"}, run)
	if address == "" {
		return s.Run(ctx, &sdk.StdioTransport{})
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "mcppeer: listening on http://%s/mcp\n", l.Addr())
	server := &http.Server{Handler: sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func run(ctx context.Context, _ *sdk.CallToolRequest, in input) (*sdk.CallToolResult, output, error) {
	if len(in.Argv) == 0 {
		return nil, output{}, errors.New("cannot run: no command was given")
	}
	cmd := exec.CommandContext(ctx, in.Argv[0], in.Argv[1:]...)
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		return nil, output{}, err
	}
	return nil, output{cmd.ProcessState.ExitCode(), string(out)}, nil
}
