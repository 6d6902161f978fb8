//go:build linux

package escape

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// byHTTP is a tool's call over HTTP, at a socket of the scene's that asks for
// no token. More flags come from the row.
func byHTTP(scheme, tool string, arguments map[string]any) door {
	return func(t *testing.T, s *scene, r later, script string) (bool, string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		socket := filepath.Join(s.dir, "mcp.sock")
		if err := buildServer(); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"mcp", "--profile", "full", "--workspace", s.ws, "--http", "unix://" + socket, "--no-auth"}, s.flags(r)...)
		cmd := s.paddock(ctx, r.env, args...)
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		lines := bufio.NewScanner(stderr)
		listens := false
		for !listens && lines.Scan() {
			said.WriteString(lines.Text() + "\n")
			listens = strings.Contains(lines.Text(), "listening on")
		}
		ran := false
		if listens {
			given := map[string]any{}
			for name, value := range arguments {
				switch value {
				case "{argv}":
					value = []string{"sh", "-c", script}
				case "{at}":
					value = filepath.Join(s.ws, r.at)
				}
				given[name] = value
			}
			answer := postCall(ctx, t, scheme, socket, tool, given)
			ran = strings.Contains(answer, ranMark)
			if !ran {
				said.WriteString("paddock answers: " + answer + "\n")
			}
		}
		_ = cmd.Process.Signal(syscall.SIGTERM)
		for lines.Scan() {
			said.WriteString("paddock: " + lines.Text() + "\n")
		}
		_ = cmd.Wait()
		return ran, said.String()
	}
}

// postCall opens a session and calls one tool.
func postCall(ctx context.Context, t *testing.T, scheme, socket, tool string, arguments map[string]any) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the test makes the certificate
	}}
	defer client.CloseIdleConnections()
	session := ""
	post := func(message map[string]any) string {
		message["jsonrpc"] = "2.0"
		body, err := json.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://localhost/mcp", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	post(map[string]any{"id": 0, "method": "initialize", "params": map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "model", "version": "1"},
	}})
	post(map[string]any{"method": "notifications/initialized"})
	return post(map[string]any{"id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
}
