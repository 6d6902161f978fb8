package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/server/mcp"
)

// TestEnd: the end of the input ends what is in flight; the end of the server too.
func TestEnd(t *testing.T) {
	begun, ended := make(chan bool, 2), make(chan bool, 2)
	waits := does(op.Desc{Name: "waits"}, func(ctx context.Context) error {
		begun <- true
		<-ctx.Done()
		ended <- true
		return ctx.Err()
	})
	for _, how := range []string{"input", "output", "context", "close"} {
		s := serve(t, mcp.Options{Ops: []op.Op{waits}})
		in, inWrite := io.Pipe()
		outRead, out := io.Pipe()
		go io.Copy(io.Discard, outRead) //nolint:errcheck // it ends with the pipe
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.ServeStdio(ctx, in, out) }()
		send(t, inWrite, hello+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"waits"}}`+"\n")
		await(t, begun, "begin")
		switch how {
		case "input":
			_ = inWrite.Close()
		case "output":
			_ = outRead.Close()
			send(t, inWrite, `{"jsonrpc":"2.0","id":3,"method":"ping"}`+"\n")
		case "context":
			cancel()
		case "close":
			_ = s.Close()
			_ = inWrite.Close()
		}
		await(t, ended, "end by its "+how)
		if err := await(t, served, "return"); err != nil && how != "output" {
			t.Errorf("%s: %v", how, err)
		}
		cancel()
	}
}

func send(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}` + "\n"

// TestLines: what is no message is answered, and the next one is taken; a file of
// requests is answered to its last line.
func TestLines(t *testing.T) {
	s := serve(t, mcp.Options{Ops: []op.Op{echo()}})
	in := "\n\r\nnonsense\n{}\n[]\n" + hello + `{"jsonrpc":"2.0","id":"x"}` + "\n" +
		strings.Repeat("x", 17<<20) + "\n" +
		`{"jsonrpc":"2.0","id":2,"method":"nothing"}` + "\n" +
		`{"jsonrpc":"2.0","id":3,"method":"tools/call"}` + "\n" +
		`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","arguments":{"text":"last"}}}`
	var out strings.Builder
	if err := s.ServeStdio(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"code":-32700`, `"code":-32600`, `longer than`, `"code":-32601`, `"id":3`, `"text":"last"`, `"protocolVersion"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in %s", want, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%q is written", line)
		}
	}
}

// TestEmptyLists: where nothing is offered lists are empty, and not null, which clients
// do not take for a list.
func TestEmptyLists(t *testing.T) {
	s := serve(t, mcp.Options{Ops: []op.Op{}})
	in := hello + `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for _, list := range []string{"tools", "prompts"} {
		in += `{"jsonrpc":"2.0","id":"` + list + `","method":"` + list + `/list"}` + "\n"
	}
	var out strings.Builder
	if err := s.ServeStdio(t.Context(), strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"tools":[]`) || !strings.Contains(out.String(), `"id":"prompts"`) || strings.Contains(out.String(), "null") {
		t.Errorf("%s", out.String())
	}
}

// TestIdentifiers: who asks is answered by the identifier it gave, also where the
// message cannot be read; and no two requests at a time have the same.
func TestIdentifiers(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	s := serve(t, mcp.Options{Ops: []op.Op{echo(), does(op.Desc{Name: "wait", Profile: op.ProfileWorkspace}, func(context.Context) error {
		close(begun)
		<-end
		return nil
	})}})
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	go func() { _ = s.ServeStdio(context.Background(), inRead, outWrite) }()
	answers := bufio.NewScanner(outRead)
	answers.Buffer(nil, 1<<20)
	answered := func(name string, want ...string) {
		t.Helper()
		if !answers.Scan() {
			t.Fatalf("%s: no answer: %v", name, answers.Err())
		}
		for _, text := range want {
			if !strings.Contains(answers.Text(), text) {
				t.Errorf("%s: %s, want %s", name, answers.Text(), text)
			}
		}
	}
	send(t, inWrite, hello)
	answered("hello")
	send(t, inWrite, `{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"wait"}}`+"\n")
	await(t, begun, "begin")
	send(t, inWrite, `{"jsonrpc":"2.0","id":"same","method":"ping"}`+"\n")
	answered("the same again", `"id":"same"`, `-32600`, "still waits for its answer")
	close(end)
	answered("the first", `"id":"same"`, `"result"`)
	for range 100 { // as soon as it is answered
		send(t, inWrite, `{"jsonrpc":"2.0","id":"same","method":"ping"}`+"\n")
		answered("once it is answered", `"id":"same"`, `"result"`)
	}
	long, deep := strings.Repeat("x", 18<<20), strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)
	for name, line := range map[string]string{
		"long, first": `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"id":8,"x":"` + long + `"}}`,
		"long, last":  `{"method":"ping","params":{"x":"` + long + `"},"jsonrpc":"2.0","id":7}`,
		"deep":        `{"jsonrpc": "2.0", "id": 7, "params":` + deep + `}`,
	} {
		send(t, inWrite, line+"\n")
		answered(name, `"id":7`, `"error"`)
	}
	send(t, inWrite, `{"params":{"x":"`+long+`","id":7}}`+"\n")
	answered("no identifier of its own", `"id":null`)
	name := strings.Repeat("n", 100_000) // is not repeated
	for _, request := range []string{`"tools/call","params":{"name":"` + name + `"}`, `"prompts/get","params":{"name":"` + name + `"}`, `"` + name + `"`} {
		send(t, inWrite, `{"jsonrpc":"2.0","id":9,"method":`+request+"}\n")
		answered("a long name", `"id":9`, `"error"`)
		if len(answers.Bytes()) > 3000 {
			t.Errorf("the answer has %d bytes: %.200s", len(answers.Bytes()), answers.Text())
		}
	}
	_ = inWrite.Close()
}
