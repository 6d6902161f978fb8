package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/server/mcp"
)

// patient is longer than anything here takes, on a machine that does much else.
const patient = time.Minute

type echoIn struct {
	Text string   `json:"text,omitempty" help:"what to say; see --loud" max:"1000000"`
	Loud bool     `json:"loud,omitempty" flag:"loud" help:"say it so that everybody hears"`
	List []string `json:"list,omitempty" help:"lines (may be repeated)"`
}

type echoOut struct {
	Text string   `json:"text"`
	List []string `json:"list"`
	Who  string   `json:"who"`
}

// echo is an operation that answers what it is asked.
func echo() op.Op {
	return op.New(op.Desc{Name: "echo", CLI: []string{"echo"}, Summary: "Say what was said", Profile: op.ProfileWorkspace,
		Doc: "Say it again. With --loud all hear it; paddock echo says nothing else.", Hints: op.Hints{ReadOnly: true}},
		func(_ context.Context, env *op.Env, in echoIn, _ *op.Stream) (echoOut, error) {
			out := echoOut{Text: in.Text, List: in.List}
			if env.Principal != nil {
				out.Who = env.Principal.Name
			}
			return out, nil
		}, func(w io.Writer, out echoOut) error {
			_, err := fmt.Fprintln(w, out.Text)
			return err
		})
}

// does is an operation that does something, and answers nothing.
func does(desc op.Desc, do func(ctx context.Context) error) op.Op {
	desc.Summary = "Do " + desc.Name
	return op.New(desc, func(ctx context.Context, _ *op.Env, _ struct{}, _ *op.Stream) (struct{}, error) {
		return struct{}{}, do(ctx)
	}, func(io.Writer, struct{}) error { return nil })
}

// serve makes a server whose answers are structured, too.
func serve(t *testing.T, opts mcp.Options) *mcp.Server {
	t.Helper()
	opts.Structured = true
	return serveText(t, opts)
}

func serveText(t *testing.T, opts mcp.Options) *mcp.Server {
	t.Helper()
	if opts.Env == nil {
		opts.Env = func(name string) (*op.Env, error) {
			return &op.Env{Principal: &privilege.Principal{Name: "agent:" + name}}, nil
		}
	}
	s, err := mcp.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// dial speaks with a server over two pipes, as a client does that has started it.
func dial(t *testing.T, s *mcp.Server, opts *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- s.ServeStdio(context.Background(), inRead, outWrite) }()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts)
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: outRead, Writer: inWrite}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = inWrite.Close()
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patient):
			t.Error("the server does not end with its input")
		}
		_ = outWrite.Close()
		_ = session.Close()
	})
	return session
}

func call(t *testing.T, s *sdk.ClientSession, name string, args any) *sdk.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

func text(t *testing.T, res *sdk.CallToolResult) string {
	t.Helper()
	if len(res.Content) != 1 {
		t.Fatalf("%d contents", len(res.Content))
	}
	c, ok := res.Content[0].(*sdk.TextContent)
	if !ok {
		t.Fatalf("%T", res.Content[0])
	}
	return c.Text
}

// raw is the structured content as it was sent.
func raw(t *testing.T, res *sdk.CallToolResult) string {
	t.Helper()
	b, err := json.Marshal(res.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestList(t *testing.T) {
	granted := &grants{}
	ops := []op.Op{echo(),
		does(op.Desc{Name: "mine", Profile: op.ProfileWorkspace, Local: true}, nil),
		does(op.Desc{Name: "host", Profile: op.ProfileRun | op.ProfileWorkspace, Needs: privilege.UnsandboxedExec}, func(context.Context) error { return nil }),
		does(op.Desc{Name: "rare"}, nil)}
	s := serve(t, mcp.Options{Ops: ops, Profile: op.ProfileWorkspace, Env: func(string) (*op.Env, error) {
		return &op.Env{Principal: &privilege.Principal{Name: "ann"}, Privileges: func() (privilege.Store, error) { return granted, nil }}, nil
	}})
	c := dial(t, s, nil)
	names := func() string {
		list, err := c.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, tool := range list.Tools {
			all = append(all, tool.Name)
			if tool.Name == "echo" {
				checkEcho(t, tool)
			}
		}
		return strings.Join(all, " ")
	}
	if got := names(); got != "echo" {
		t.Errorf("tools are %q", got)
	}
	if res := call(t, c, "host", nil); !res.IsError || !strings.Contains(text(t, res), "does not have the UNSANDBOXED_EXEC privilege") {
		t.Errorf("without the privilege: %+v", text(t, res))
	}
	granted.all = privilege.UnsandboxedExec
	if got := names(); got != "echo host" {
		t.Errorf("with the privilege, tools are %q", got)
	}
	for _, name := range []string{"mine", "rare", "nothing"} {
		if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: name}); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// checkEcho: words of the command line have become those of tools.
func checkEcho(t *testing.T, tool *sdk.Tool) {
	t.Helper()
	if want := "Say what was said.\n\nSay it again. With loud all hear it; echo says nothing else."; tool.Description != want {
		t.Errorf("description is %q", tool.Description)
	}
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil {
		t.Fatal(err)
	}
	if in := string(schema); !strings.Contains(in, `"what to say; see loud"`) || strings.Contains(in, "repeated") || strings.Contains(in, "$schema") {
		t.Errorf("input schema is %s", in)
	}
	if out, _ := tool.OutputSchema.(map[string]any); out["type"] != "object" {
		t.Errorf("output schema is %v", tool.OutputSchema)
	}
	if a := tool.Annotations; !a.ReadOnlyHint || !a.IdempotentHint || a.DestructiveHint != nil || *a.OpenWorldHint {
		t.Errorf("annotations are %+v", a)
	}
}

// grants is a store in memory.
type grants struct {
	privilege.Store
	all privilege.Set
}

func (g *grants) Get(context.Context, string) (privilege.Set, error) { return g.all, nil }

func TestCall(t *testing.T) {
	fails := does(op.Desc{Name: "fails"}, func(context.Context) error {
		return errors.Join(&paddock.Error{Message: "cannot go: no way", Hint: "stay\nhere", Code: "busy"}, errors.New("cannot stay"))
	})
	panics := does(op.Desc{Name: "panics"}, func(context.Context) error { panic("oops") })
	c := dial(t, serve(t, mcp.Options{Ops: []op.Op{echo(), fails, panics}}), nil)
	tests := []struct {
		name, args string
		isError    bool
		text       string
	}{
		{"echo", `{"text":"hello"}`, false, "hello"},
		{"echo", `{"text":"a\u001b[31mred\u001b]0;title\u0007\u009b1m\u0000\u202e\r\nb\rc\u001b"}`, false, "ared\nb\nc"},
		{"echo", `{"text":"\u001b⟦U+0041⟧ \u001b\nb\u001b(é\u001b[é"}`, false, "⟦U+0041⟧ \nbéé"},
		{"echo", `{"text":"a\udb40\udd00\u2060\u115f\u034f\u200bb 👨\u200d👩 ❤\ufe0f"}`, false, "ab 👨\u200d👩 ❤\ufe0f"},
		{"echo", `{"txt":"a"}`, true, "unknown field \"txt\"\nhint: did you mean \"text\"? the fields here are list, loud, text"},
		{"echo", `{"colour":"a"}`, true, "unknown field \"colour\"\nhint: the fields here are list, loud, text"},
		{"echo", `{"Text":"a"}`, true, "unknown field \"Text\": it is written \"text\"\nhint: did you mean \"text\"?"},
		{"echo", `{"text":1}`, true, "text must not be a JSON number"},
		{"echo", `{"text":"hello","loud":null,"list":null}`, false, "hello"},
		{"echo", `{"text":"hello","list":[null]}`, true, "list[0] must not be a JSON null"},
		{"echo", `{"text":"a","text":"b"}`, true, "text"},
		{"echo", `{"list":["a",2]}`, true, "list[1]"},
		{"echo", `[]`, true, "object"},
		{"echo", `"text"`, true, "object"},
		{"fails", `{}`, true, "cannot go: no way\nhint: stay; here\ncannot stay"},
		{"panics", `{}`, true, "cannot do panics: internal error\nhint: "},
		{"echo", `{"text":"still there"}`, false, "still there"},
	}
	for _, tt := range tests {
		res := call(t, c, tt.name, json.RawMessage(tt.args))
		if got := text(t, res); res.IsError != tt.isError || !strings.Contains(got, tt.text) || !tt.isError && got != tt.text {
			t.Errorf("%s %s: %v %q, want %q", tt.name, tt.args, res.IsError, got, tt.text)
		}
		if tt.isError && res.StructuredContent != nil && raw(t, res) != "{}" {
			t.Errorf("%s %s: an error with %s", tt.name, tt.args, raw(t, res))
		}
	}
	info, _ := call(t, c, "fails", nil).Meta["paddock/error"].(map[string]any)
	if info["code"] != "busy" || info["error"] != "cannot go: no way" || info["hint"] != "stay; here" {
		t.Errorf("for programs the error is %v", info)
	}
}

// TestBudget: whatever is answered has at most so many characters, and is still
// what the schema says.
func TestBudget(t *testing.T) {
	const budget = mcp.MinBudget
	c := dial(t, serve(t, mcp.Options{Ops: []op.Op{echo()}, Budget: budget}), nil)
	for name, in := range map[string]echoIn{
		"short":       {Text: "a"},
		"a long text": {Text: "begin" + strings.Repeat("x", 100000) + "end"},
		"wide":        {Text: strings.Repeat("日本", 50000)},
		"escapes":     {Text: strings.Repeat("\"\n\\", 50000)},
		"many":        {Text: "few words", List: strings.Split(strings.Repeat("word ", 20000), " ")},
		"all":         {Text: strings.Repeat("y", 9000), List: []string{strings.Repeat("z", 9000), strings.Repeat("\x01", 9000)}},
	} {
		res := call(t, c, "echo", in)
		got, structured := text(t, res), raw(t, res)
		if n := len([]rune(got)); n > budget/2 {
			t.Errorf("%s: the text has %d characters", name, n)
		}
		var out echoOut
		if err := json.Unmarshal([]byte(structured), &out); err != nil || len([]rune(structured)) > budget {
			t.Errorf("%s: %d characters, %v", name, len([]rune(structured)), err)
		}
		if res.IsError || name == "a long text" && (!strings.HasPrefix(out.Text, "begin") || !strings.HasSuffix(out.Text, "end") || !strings.HasPrefix(got, "begin") || !strings.Contains(got, "not shown")) {
			t.Errorf("%s: %v %q", name, res.IsError, got)
		}
	}
}

// TestCancel: a call that is cancelled is answered at once, and what it does ends.
func TestCancel(t *testing.T) {
	begun, ended := make(chan bool, 1), make(chan bool, 1)
	waits := does(op.Desc{Name: "waits"}, func(ctx context.Context) error {
		begun <- true
		<-ctx.Done()
		ended <- true
		return ctx.Err()
	})
	c := dial(t, serve(t, mcp.Options{Ops: []op.Op{waits, echo()}}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "waits"})
		failed <- err
	}()
	await(t, begun, "begin")
	if got := text(t, call(t, c, "echo", echoIn{Text: "meanwhile"})); got != "meanwhile" {
		t.Errorf("beside it: %q", got)
	}
	cancel()
	await(t, ended, "end")
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func await[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patient):
		t.Fatal("it does not " + what)
	}
	return v
}

// TestPrincipals: each has its own, over HTTP, and nobody another's session.
func TestPrincipals(t *testing.T) {
	s := serve(t, mcp.Options{Ops: []op.Op{echo()}})
	handler := s.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if name := r.Header.Get("X-Who"); name != "" {
			r = r.WithContext(mcp.WithPrincipal(r.Context(), name))
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	dialAs := func(who string) (*sdk.ClientSession, error) {
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		return client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: web.URL, MaxRetries: -1, HTTPClient: &http.Client{Transport: as(who)}}, nil)
	}
	if _, err := dialAs(""); err == nil {
		t.Error("somebody whom nobody knows is served")
	}
	var ids []string
	for _, who := range []string{"ann", "bob"} {
		c, err := dialAs(who)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		var out echoOut
		if err := json.Unmarshal([]byte(raw(t, call(t, c, "echo", nil))), &out); err != nil || out.Who != "agent:"+who {
			t.Errorf("%s is %q, %v", who, out.Who, err)
		}
		ids = append(ids, c.ID())
	}
	for who, status := range map[string]int{"ann": http.StatusAccepted, "bob": http.StatusNotFound} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Session-Id", ids[0])
		res, err := (&http.Client{Transport: as(who)}).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("with ann's session, %s gets %s", who, res.Status)
		}
	}
}

// TestPanicOverHTTP: a call that panics is an error of that call, and the session goes on.
func TestPanicOverHTTP(t *testing.T) {
	panics := does(op.Desc{Name: "panics"}, func(context.Context) error { panic("oops") })
	s := serve(t, mcp.Options{Ops: []op.Op{echo(), panics}})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Handler().ServeHTTP(w, r.WithContext(mcp.WithPrincipal(r.Context(), "ann")))
	}))
	t.Cleanup(web.Close)
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	c, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: web.URL, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for range 3 {
		if res := call(t, c, "panics", nil); !res.IsError || !strings.HasPrefix(text(t, res), "cannot do panics: internal error\n") {
			t.Errorf("%v: %s", res.IsError, text(t, res))
		}
		if res := call(t, c, "echo", json.RawMessage(`{"text":"still there"}`)); res.IsError || text(t, res) != "still there" {
			t.Errorf("%v: %s", res.IsError, text(t, res))
		}
	}
}

// as says who asks.
type as string

func (who as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Who", string(who))
	return http.DefaultTransport.RoundTrip(r)
}

func TestOptions(t *testing.T) {
	for _, opts := range []mcp.Options{{}, {Env: func(string) (*op.Env, error) { return &op.Env{}, nil }, Budget: 100}} {
		if _, err := mcp.New(opts); err == nil || !strings.HasPrefix(err.Error(), "cannot ") {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

// TestProgress: a client that asks hears how far its call is, in numbers that
// grow, and nothing after the answer.
func TestProgress(t *testing.T) {
	steps := op.New(op.Desc{Name: "steps", Summary: "Go"}, func(_ context.Context, _ *op.Env, _ struct{}, s *op.Stream) (struct{}, error) {
		for i := range 3 {
			if s.Progress != nil {
				s.Progress(float64(i), 2, "step\x1b[1m one\nmore")
			}
		}
		s.Note("beside\x07 it")
		return struct{}{}, nil
	}, func(w io.Writer, _ struct{}) error { _, err := fmt.Fprintln(w, "done"); return err })
	slow := does(op.Desc{Name: "slow"}, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Second):
		}
		return nil
	})
	heard := make(chan *sdk.ProgressNotificationParams, 100)
	c := dial(t, serve(t, mcp.Options{Ops: []op.Op{steps, slow}}), &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { heard <- r.Params },
	})
	if got := text(t, call(t, c, "steps", nil)); got != "[beside it]\ndone" || len(heard) > 0 {
		t.Errorf("%q, and %d notifications", got, len(heard))
	}
	params := &sdk.CallToolParams{Name: "steps", Meta: sdk.Meta{"progressToken": "p1"}}
	if _, err := c.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	for p := await(t, heard, "report"); p.Progress != 2; p = await(t, heard, "report its end") {
		if p.ProgressToken != "p1" || p.Total != 2 || p.Message != "step one; more" {
			t.Errorf("%+v", p)
		}
	}
	params = &sdk.CallToolParams{Name: "slow", Meta: sdk.Meta{"progressToken": "p2"}}
	if _, err := c.CallTool(t.Context(), params); err != nil {
		t.Fatal(err)
	}
	if p := await(t, heard, "report that it runs"); p.ProgressToken != "p2" || !strings.HasPrefix(p.Message, "slow runs for ") {
		t.Errorf("%+v", p)
	}
}
