//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// mcpServer is a server that is compared.
type mcpServer struct {
	name string
	argv []string
	http []string // more flags where it listens
}

// mcpAsker is a session with a server, in which one request follows the other.
type mcpAsker interface {
	ask(method string, params any) (json.RawMessage, error)
}

// mcpWell is what a server answers, as text or in a field, of a command that went well.
var mcpWell = regexp.MustCompile(`exit status 0 |"exit_code":0`)

// mcpTrue calls exec true.
func mcpTrue(c mcpAsker) (time.Duration, error) {
	began := time.Now()
	result, err := c.ask("tools/call", map[string]any{"name": "exec", "arguments": map[string]any{"argv": []string{"true"}}})
	took := time.Since(began)
	if err == nil && (bytes.Contains(result, []byte(`"isError":true`)) || !mcpWell.Match(result)) {
		err = fmt.Errorf("the answer is %s", result)
	}
	return took, err
}

var mcpHello = map[string]any{
	"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "bench", "version": "1"},
}

// mcpMessage is a request, or what answers it.
type mcpMessage struct {
	Version string          `json:"jsonrpc"`
	ID      int             `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// answers gives the result where the message is the answer to request id.
func (m mcpMessage) answers(id int) (json.RawMessage, bool, error) {
	switch {
	case m.ID != id || m.Method != "":
		return nil, false, nil
	case m.Error != nil:
		return nil, true, fmt.Errorf("the server says %s", m.Error)
	}
	return m.Result, true, nil
}

// mcpLines is a session over standard input and output.
type mcpLines struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	last int
}

// stdio starts the server and says hello.
func (s *mcpServer) stdio(ctx context.Context) (*mcpLines, error) {
	c := &mcpLines{cmd: exec.CommandContext(ctx, s.argv[0], s.argv[1:]...)}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 1<<20)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := c.ask("initialize", mcpHello); err != nil {
		return nil, errors.Join(err, c.close())
	}
	_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return c, err
}

func (c *mcpLines) ask(method string, params any) (json.RawMessage, error) {
	c.last++
	text, err := json.Marshal(mcpMessage{Version: "2.0", ID: c.last, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	if _, err := c.in.Write(append(text, '\n')); err != nil {
		return nil, err
	}
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("cannot read an answer: %w", err)
		}
		var m mcpMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, err
		}
		if result, done, err := m.answers(c.last); done {
			return result, err
		}
	}
}

func (c *mcpLines) close() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

var mcpListening = regexp.MustCompile(`listening on (\S+)`)

// listen starts the server on a port of its own.
func (s *mcpServer) listen(ctx context.Context) (url string, end func(), err error) {
	argv := append(append(append([]string(nil), s.argv...), "--http", "127.0.0.1:0"), s.http...)
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return "", nil, err
	}
	end = func() { cancel(); _ = cmd.Wait() }
	said := bufio.NewScanner(stderr)
	for said.Scan() {
		if m := mcpListening.FindStringSubmatch(said.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, stderr) }()
			return m[1], end, nil
		}
	}
	end()
	return "", nil, fmt.Errorf("%s does not listen", s.name)
}

// mcpPosts is a session over HTTP.
type mcpPosts struct {
	ctx     context.Context //nolint:containedctx // one session belongs to one measurement
	client  *http.Client
	url     string
	session string
	last    int
}

// openHTTP opens a session and says hello.
func openHTTP(ctx context.Context, url string) (*mcpPosts, error) {
	c := &mcpPosts{ctx: ctx, client: &http.Client{Transport: &http.Transport{}}, url: url}
	if _, err := c.ask("initialize", mcpHello); err != nil {
		return nil, err
	}
	r, err := c.post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`))
	if err != nil {
		return nil, err
	}
	return c, r.Body.Close()
}

func (c *mcpPosts) post(body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
		r.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	return c.client.Do(r)
}

func (c *mcpPosts) ask(method string, params any) (json.RawMessage, error) {
	c.last++
	text, err := json.Marshal(mcpMessage{Version: "2.0", ID: c.last, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	r, err := c.post(text)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if id := r.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	for line := range strings.Lines(string(body)) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "data:"))
		var m mcpMessage
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &m) != nil {
			continue // a line of an event that is no message
		}
		if result, done, err := m.answers(c.last); done {
			return result, err
		}
	}
	return nil, fmt.Errorf("the server answered %s: %.200s", r.Status, body)
}
