package table

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/admin"
	"github.com/paddock-dev/paddock/privilege"
)

// busy is an office whose log holds operations of several people.
func busy(t *testing.T) *op.Env {
	t.Helper()
	env := office(t)
	for i, r := range []audit.Record{
		{Kind: audit.KindBegin, Principal: "local:me", Op: "run", Args: []byte(`{"argv":["evil\u001b[2J\u202e"]}`)},
		{Kind: audit.KindEnd, Call: 1, Principal: "local:me", Op: "run", Outcome: audit.OutcomeError, Error: "a\nb\x1b[2J\u009b"},
		{Kind: audit.KindCall, Principal: "mcp:other", Op: "run", Outcome: audit.OutcomeDenied},
		{Kind: audit.KindCall, Principal: "mcp:other", Op: "plan", Outcome: audit.OutcomeOK},
	} {
		if got, err := env.Audit.Append(t.Context(), r); err != nil || got.Seq != uint64(i+1) {
			t.Fatal(got.Seq, err)
		}
	}
	return env
}

func TestAuditRead(t *testing.T) {
	tests := []struct{ name, input, who, want, wantErr string }{
		{"all", `{}`, "", "1 2 3 4", ""},
		{"a principal's", `{"principal":"mcp:other"}`, "", "3 4", ""},
		{"an operation's", `{"op":"run"}`, "", "1 2 3", ""},
		{"both", `{"op":"run","principal":"mcp:other"}`, "", "3", ""},
		{"the newest", `{"limit":2}`, "", "3 4", ""},
		{"of an hour", `{"since":"1h"}`, "", "1 2 3 4", ""},
		{"from some time on", `{"since":"2100-01-01T00:00:00Z"}`, "", "", ""},
		{"nobody's", `{"principal":"x"}`, "", "", ""},
		{"one's own alone", `{}`, "mcp:other", "3 4", ""},
		{"one's own, asked for", `{"principal":"mcp:other","op":"plan"}`, "mcp:other", "4", ""},
		{"of others", `{"principal":"local:me"}`, "mcp:other", "", "cannot read the records of others: only an administrator may"},
		{"no time", `{"since":"yesterday"}`, "", "", `cannot use since "yesterday": it is neither a duration nor a time`},
		{"no limit", `{"limit":0}`, "", "", "cannot read the input of audit_read: limit must be 1 at least"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := busy(t)
			if tt.who != "" {
				env.Principal = &privilege.Principal{Name: tt.who}
			}
			var streamed strings.Builder
			_, err := op.Of[admin.AuditReadInput]().Call(t.Context(), env, []byte(tt.input), &op.Stream{Stdout: &streamed})
			if text := errText(err); text != tt.wantErr {
				t.Fatalf("error is %q, want %q", text, tt.wantErr)
			}
			if err != nil {
				return
			}
			var seqs []string
			for line := range strings.Lines(streamed.String()) {
				seqs = append(seqs, strings.Fields(line)[1])
			}
			if got := strings.Join(seqs, " "); got != tt.want {
				t.Errorf("records %s, want %s", got, tt.want)
			}
			fresh := busy(t)
			fresh.Principal = env.Principal
			out, err := op.Of[admin.AuditReadInput]().Call(t.Context(), fresh, []byte(tt.input), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(out.(admin.AuditReadOutput).Records); got != len(seqs) {
				t.Errorf("an answer of %d records, a stream of %d", got, len(seqs))
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestAuditTextIsHarmless: what a terminal obeys is not printed.
func TestAuditTextIsHarmless(t *testing.T) {
	env := busy(t)
	var b strings.Builder
	if _, err := op.Of[admin.AuditReadInput]().Call(t.Context(), env, []byte(`{}`), &op.Stream{Stdout: &b}); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	for i, want := range []string{`local:me run begins args={"argv":["evil\u001b[2J\u202e"]}`, `local:me run error call=1 0s error="a\nb\x1b[2J\u009b"`, "mcp:other run denied 0s"} {
		if !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d is %q, want %q at its end", i+1, lines[i], want)
		}
	}
}

func TestAuditRaw(t *testing.T) {
	env := busy(t)
	for _, input := range []string{`{"raw":true}`, `{"raw":true,"limit":10}`} {
		var b bytes.Buffer
		if _, err := op.Of[admin.AuditReadInput]().Call(t.Context(), env, []byte(input), &op.Stream{Stdout: &b}); err != nil {
			t.Fatal(err)
		}
		r, err := audit.Open(env.Audit.Dir())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if e, err := r.Next(); err != nil || string(e.Text) != line {
				t.Errorf("%s prints %q, not what is written: %v", input, line, err)
			}
		}
		_ = r.Close()
	}
}

func TestAuditOfNothing(t *testing.T) {
	env := office(t)
	out, err := op.Of[admin.AuditReadInput]().Call(t.Context(), env, []byte(`{}`), nil)
	if err != nil || out.(admin.AuditReadOutput).Records == nil || env.Audit.Exists() {
		t.Errorf("reading gives %+v, %v", out, err)
	}
	if _, err := op.Of[admin.AuditReadInput]().Call(t.Context(), env, []byte(`{"follow":true}`), nil); errText(err) != "cannot follow the audit log: the output is one JSON object" {
		t.Error(err)
	}
	if _, err := op.Of[admin.AuditReadInput]().Call(t.Context(), env, []byte(`{"follow":true}`), &op.Stream{Stdout: io.Discard}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	out, err = op.Of[admin.AuditVerifyInput]().Call(t.Context(), env, []byte(`{}`), nil)
	if err != nil || !out.(admin.AuditVerifyOutput).OK {
		t.Errorf("verifying gives %+v, %v", out, err)
	}
	env.Principal = nil
	if _, err := op.Of[admin.AuditReadInput]().Call(t.Context(), env, []byte(`{}`), nil); errText(err) != "No context." {
		t.Error(err)
	}
	env.Audit = nil
	for _, o := range []op.Op{op.Of[admin.AuditReadInput](), op.Of[admin.AuditVerifyInput]()} {
		if _, err := o.Call(t.Context(), env, []byte(`{}`), nil); errText(err) != "cannot read the audit log: there is none" {
			t.Error(err)
		}
	}
}

// TestAuditFollow waits for each record to be printed before it makes the next.
func TestAuditFollow(t *testing.T) {
	for _, end := range []string{"signal", "context"} {
		t.Run(end, func(t *testing.T) {
			env := busy(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			out, in := io.Pipe()
			signals := make(chan string, 2)
			ended := make(chan error, 1)
			go func() {
				_, err := op.Of[admin.AuditReadInput]().Call(ctx, env, []byte(`{"follow":true,"principal":"mcp:other","limit":1}`), &op.Stream{Stdout: in, Signals: signals})
				_ = in.Close()
				ended <- err
			}()
			lines := bufio.NewScanner(out)
			other := audit.At(env.Audit.Dir(), audit.Options{}) // as another process would
			defer other.Close()
			for _, want := range []string{" 4 mcp:other plan ok", " 6 mcp:other run denied", " 8 mcp:other run denied"} {
				if !lines.Scan() || !strings.Contains(lines.Text(), want) {
					t.Fatalf("the next line is %q, want %q", lines.Text(), want)
				}
				for _, who := range []string{"local:me", "mcp:other"} {
					if _, err := other.Append(t.Context(), audit.Record{Kind: audit.KindCall, Principal: who, Op: "run", Outcome: audit.OutcomeDenied}); err != nil {
						t.Fatal(err)
					}
				}
			}
			if end == "signal" {
				signals <- "SIGUSR1"
				signals <- "SIGINT"
			} else {
				cancel()
			}
			_, _ = io.Copy(io.Discard, out)
			if err := <-ended; (err != nil) != (end == "context") {
				t.Errorf("following ended with %v", err)
			}
		})
	}
}

func TestAuditVerify(t *testing.T) {
	env := busy(t)
	check := func(input string) (admin.AuditVerifyOutput, string) {
		t.Helper()
		out, err := op.Of[admin.AuditVerifyInput]().Call(t.Context(), env, []byte(input), nil)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := op.Of[admin.AuditVerifyInput]().Render(&b, out); err != nil {
			t.Fatal(err)
		}
		return out.(admin.AuditVerifyOutput), b.String()
	}
	out, text := check(`{}`)
	if want := "records  4 in 1 files\nhead     " + out.Head + "\nok: nothing was changed\n"; text != want || out.ExitStatus() != 0 {
		t.Errorf("it says %q, want %q", text, want)
	}
	// The verification itself is on record now, behind the head.
	if out, text := check(`{"head":"` + strings.ToUpper(out.Head) + `"}`); !out.OK || out.After != 1 || !strings.Contains(text, "since    1 records follow") {
		t.Errorf("it says %q", text)
	}
	out, text = check(`{"head":"` + strings.Repeat("a", 64) + `"}`)
	if out.OK || out.ExitStatus() != 1 || !strings.HasSuffix(text, "audit-00000001.jsonl: no record has the hash that was asked for: the log was cut or written anew\nchanged: the record is not what it was\n") {
		t.Errorf("it says %q", text)
	}
	for _, bad := range []string{"x", strings.Repeat("g", 64)} {
		if _, err := op.Of[admin.AuditVerifyInput]().Call(t.Context(), env, []byte(`{"head":"`+bad+`"}`), nil); err == nil || !strings.Contains(err.Error(), "hexadecimal") {
			t.Errorf("head %q: %v", bad, err)
		}
	}
}

// TestSandboxesAreOpenedInOnePlace: no operation can forget the ceiling.
func TestSandboxesAreOpenedInOnePlace(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || file == "sandbox.go" {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "paddock" && (s.Sel.Name == "Open" || s.Sel.Name == "Plan") {
				t.Errorf("%s uses paddock.%s, not that of Env", file, s.Sel.Name)
			}
			return true
		})
	}
}
