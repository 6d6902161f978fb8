package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/agent/internal/core"
	"github.com/paddock-dev/paddock/internal/clone"
	"github.com/paddock-dev/paddock/wire"
)

// How long one check of each type of readiness may take.
const (
	tcpLimit     = time.Second
	httpLimit    = 2 * time.Second
	commandLimit = 10 * time.Second
)

// maxReadiness bounds the readiness of a request, in bytes.
const maxReadiness = 64 << 10

// readiness is a validated readiness. If a check fails for any reason, the service is
// not ready.
type readiness struct {
	text  json.RawMessage // as the client gave it
	limit time.Duration   // of one check
	check func(ctx context.Context, program *clone.Command) bool
	// answers is the address or URL that the check connects to, empty for a check that
	// only this service or its caller can satisfy.
	answers string
}

// unused returns an error if another program satisfies the readiness already.
func (r *readiness) unused() *wire.Error {
	if r.answers == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.limit)
	defer cancel()
	if !r.check(ctx, nil) {
		return nil
	}
	return &wire.Error{Code: wire.CodeConflict, Object: "readiness", Message: "cannot start the service: " + r.answers + " is answered already"}
}

// isJSONObject reports whether valid JSON is an object.
func isJSONObject(text []byte) bool {
	text = bytes.TrimSpace(text)
	return len(text) > 0 && text[0] == '{'
}

// parseReadiness returns the readiness of a request, or an error if it is invalid. It
// returns nil for JSON that is not an object.
func (t *Table) parseReadiness(text json.RawMessage) (*readiness, error) {
	if !isJSONObject(text) {
		return nil, nil
	}
	if len(text) > maxReadiness {
		return nil, core.BadField("readiness", fmt.Sprintf("readiness must be at most %d bytes", maxReadiness))
	}
	var fields map[string]any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&fields); err != nil {
		return nil, core.BadField("readiness", "cannot read the readiness: "+err.Error())
	}
	kind, err := readinessField(fields, "type")
	if err != nil {
		return nil, err
	}
	r := &readiness{text: text}
	switch kind {
	case "file":
		err = t.fileReadiness(r, fields)
	case "tcp":
		err = tcpReadiness(r, fields)
	case "http":
		err = httpReadiness(r, fields)
	case "command":
		err = t.commandReadiness(r, fields)
	default:
		err = core.BadField("readiness", "unsupported readiness type: "+kind)
	}
	return r, err
}

// readinessField returns a field as text. A number is returned as its digits.
func readinessField(fields map[string]any, name string) (string, error) {
	switch v := fields[name].(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case nil:
		return "", core.BadField("readiness", "readiness "+name+" is required")
	default:
		return "", core.BadField("readiness", "readiness "+name+" must be a string")
	}
}

func (t *Table) fileReadiness(r *readiness, fields map[string]any) error {
	path, err := readinessField(fields, "path")
	if err != nil {
		return err
	}
	p, werr := core.ParsePath(path)
	if werr != nil {
		return werr
	}
	r.limit = tcpLimit
	r.check = func(context.Context, *clone.Command) bool {
		dir, err := t.box.WorkspaceDir.Walk(p.Parent())
		if err != nil {
			return false
		}
		defer dir.Close()
		_, err = dir.Lstat(p.Base())
		return err == nil
	}
	return nil
}

func tcpReadiness(r *readiness, fields map[string]any) error {
	address, err := readinessField(fields, "address")
	if err != nil {
		return err
	}
	colon := strings.LastIndexByte(address, ':')
	host, port := address[:max(colon, 0)], address[colon+1:]
	n, err := strconv.ParseUint(strings.TrimSpace(port), 10, 16)
	if colon < 0 || err != nil || n == 0 || strings.ContainsAny(host, ":\x00") {
		return core.BadField("readiness", "readiness address must be HOST:PORT, with an IPv4 address or a name")
	}
	address = net.JoinHostPort(strings.TrimSpace(host), strconv.FormatUint(n, 10))
	r.limit, r.answers = tcpLimit, address
	r.check = func(ctx context.Context, _ *clone.Command) bool {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp4", address)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	}
	return nil
}

func httpReadiness(r *readiness, fields map[string]any) error {
	text, err := readinessField(fields, "url")
	if err != nil {
		return err
	}
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return core.BadField("readiness", "readiness url must be http://HOST[:PORT]/…")
	case u.Scheme == "https":
		return core.BadField("readiness", "readiness url must be http://…: https is not supported, use a command")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return core.BadField("readiness", "readiness url has an invalid port")
		}
	}
	r.limit, r.answers = httpLimit, u.Host
	r.check = func(ctx context.Context, _ *clone.Command) bool {
		status, err := httpStatus(ctx, u)
		return err == nil && 200 <= status && status < 400
	}
	return nil
}

func (t *Table) commandReadiness(r *readiness, fields map[string]any) error {
	command, err := readinessField(fields, "command")
	if err != nil {
		return err
	}
	if strings.IndexByte(command, 0) >= 0 {
		return core.BadField("readiness", "readiness command must not contain a NUL byte")
	}
	r.limit = commandLimit
	r.check = func(ctx context.Context, program *clone.Command) bool {
		c := *program
		c.Argv = t.box.ShellArgv(command, c.Env)
		return t.succeeds(ctx, &c)
	}
	return nil
}

// succeeds runs a command without input and output, and ends its whole tree
// when it exits or ctx does.
func (t *Table) succeeds(ctx context.Context, c *clone.Command) bool {
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(null)
	c.Env, c.Files = slices.Clone(c.Env), []int{null, null, null}
	p, err := t.box.Spawner.Start(c)
	if err != nil {
		return false
	}
	defer p.Mark.Close()
	exited := false
	select {
	case <-p.Done:
		exited = true
	case <-ctx.Done():
	}
	t.box.Trees.Kill(p.Mark)
	return exited && p.Status.Exited() && p.Status.ExitStatus() == 0
}

// maxHTTPHead bounds how much of an answer is read, in bytes.
const maxHTTPHead = 64 << 10

var errHTTP = errors.New("the answer is not HTTP")

// httpStatus requests a page and returns the status of the answer. It sends one
// GET and follows no redirect, which is all that readiness needs: a whole HTTP client
// would be the largest part of the agent.
func httpStatus(ctx context.Context, u *url.URL) (int, error) {
	port := u.Port()
	if port == "" {
		port = "80"
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: paddock\r\nAccept: */*\r\nConnection: close\r\n\r\n", u.RequestURI(), u.Host)
	if err != nil {
		return 0, err
	}
	return readStatus(bufio.NewReader(io.LimitReader(conn, maxHTTPHead)))
}

// readStatus returns the status of the final answer. It skips informational answers
// (1xx) before it.
func readStatus(in *bufio.Reader) (int, error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		// HTTP/1.x NNN and perhaps a phrase
		if len(line) < 13 || string(line[:7]) != "HTTP/1." || line[8] != ' ' || line[12] > ' ' {
			return 0, errHTTP
		}
		status, err := strconv.ParseUint(string(line[9:12]), 10, 16)
		if err != nil || status < 100 {
			return 0, errHTTP
		}
		if status >= 200 || status == 101 {
			return int(status), nil
		}
		for len(line) > 2 || line[0] != '\r' && line[0] != '\n' {
			if line, err = in.ReadSlice('\n'); err != nil {
				return 0, err
			}
		}
	}
}

// minCheck is how long every check of readiness may take, so that even a timeout of 0
// allows one check.
const minCheck = 100 * time.Millisecond

// awaitReady checks the service until it is ready, or until its end begins. If the
// time is over, it stops the service.
func (s *service) awaitReady(ready *readiness, program *clone.Command, limit, interval time.Duration) {
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		select {
		case <-s.process.Done:
		case <-s.stopping:
		case <-ctx.Done():
		}
	}()
	for {
		checkCtx, cancel := context.WithTimeout(ctx, min(ready.limit, max(minCheck, time.Until(deadline))))
		ok := ready.check(checkCtx, program)
		cancel()
		switch {
		case ok && s.setReady():
			return
		case ctx.Err() != nil:
			s.await()
			return
		case !time.Now().Before(deadline):
			s.stop(stateFailed, "readiness_timeout")
			s.await()
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(interval, max(0, time.Until(deadline)))):
		}
	}
}
