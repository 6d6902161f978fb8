package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"unicode"
	"unicode/utf8"
)

func FuzzReadLine(f *testing.F) {
	for _, seed := range []string{"", "\n", "{}\n", " {} \r\n{}", `{"action":`, "\x00\xff\n", "12345678\n", "123456789\n"} {
		f.Add([]byte(seed), 9)
	}
	f.Fuzz(func(t *testing.T, data []byte, max int) {
		max = 1 + (max&0x7fffffff)%4096
		br := bufio.NewReaderSize(bytes.NewReader(data), 16)
		line, err := ReadLine(br, max)
		end := bytes.IndexByte(data, '\n') + 1
		if end == 0 {
			end = len(data)
		}
		switch {
		case len(data) == 0:
			if err != io.EOF {
				t.Fatalf("error %v for nothing", err)
			}
		case end > max:
			wantError(t, err, CodeTooLarge, "longer than")
		case err != nil:
			t.Fatal(err)
		default:
			if want := bytes.TrimSpace(data[:end]); !bytes.Equal(line, want) || cap(line) > max {
				t.Fatalf("line %q of capacity %d, want %q within %d", line, cap(line), want, max)
			}
			rest, _ := io.ReadAll(br)
			if !bytes.Equal(rest, data[end:]) {
				t.Fatalf("rest %q, want %q", rest, data[end:])
			}
		}
	})
}

func FuzzDecodeRequest(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `null`, `{"action":"hello","version":1}`,
		`{"command":"ls","timeout_seconds":1e3,"env":{"A":"1"},"limits":{"open_files":5}}`,
		`{"argv":["a","\u0000"],"tty":{"rows":24,"cols":80},"stream":true}`,
		`{"env":[]}`, `{"rows":-1}`, "{\"command\":\"\xff\"}", `{"a":{"a":{"a":[[[`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var q ExecRequest
		err := DecodeRequest(line, &q)
		if err != nil {
			wantError(t, err, CodeBadRequest, "")
			if err.Error() == "" {
				t.Fatal("an error without text")
			}
			return
		}
		var e *Error
		if _, err := HeadOf(line); err != nil && (!errors.As(err, &e) || e.Object != "action") {
			t.Fatalf("a request without action: %v", err)
		}
		again, err := encode(q)
		if err != nil {
			t.Fatal(err)
		}
		if err := DecodeRequest(again, new(ExecRequest)); err != nil {
			t.Fatalf("its own encoding is refused: %v: %s", err, again)
		}
	})
}

func FuzzDecodeAnswer(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `{"error":"x","code":"busy","errno":-1}`, `{"error":null}`, `{"error":"\u001b[2J"}`,
		`{"exit_code":-9,"signal":"SIGKILL","denials":[{"layer":"mount"},{}]}`, `{"denials":null}`,
		`{"exit_code":1e99}`, `{"survivors":1,"survivors_killed":2}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var r ExecResult
		err := DecodeAnswer(line, &r)
		if err == nil {
			err = r.fromPeer()
		}
		var e *Error
		if errors.As(err, &e) {
			wantPrintable(t, e.Message, e.Object, e.Hint)
			if !knownCodes[e.Code] || e.Errno < 0 {
				t.Fatalf("error %+v is not safe to act on", e)
			}
			return
		}
		if err != nil {
			t.Fatalf("error %v is not an *Error", err)
		}
		if r.Survivors < r.SurvivorsKilled || r.StdoutBytes < 0 || r.ExitCode < -64 || len(r.Denials) > MaxDenials {
			t.Fatalf("result %+v makes no sense", r)
		}
		wantPrintable(t, r.ID, r.Signal)
		for _, d := range r.Denials {
			wantPrintable(t, d.Layer, d.Rule, d.Object, d.Hint)
		}
	})
}

func wantPrintable(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if utf8.RuneCountInString(text) > maxText {
			t.Fatalf("text of %d bytes", len(text))
		}
		for _, r := range text {
			if !unicode.IsPrint(r) {
				t.Fatalf("text %q can steer a terminal", text)
			}
		}
	}
}

func FuzzFrameReader(f *testing.F) {
	for _, seed := range []string{
		"", "\x01\x00", frame(StreamStdout, "abc"), frame(StreamStdout, "abc")[:9], frame(StreamStdin, ""),
		frame(StreamControl, `{"type":"exit"}`) + frame(StreamStderr, "e"),
		"\x04\x00\x00\x00\x00\x00\x00\x00", "\x01\x00\x00\x01\x00\x00\x00\x00", "\x01\x00\x00\x00\xff\xff\xff\xff",
	} {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(2))
	}
	f.Fuzz(func(t *testing.T, data []byte, skip uint8) {
		const max = 1 << 12
		var back bytes.Buffer
		r, w := NewFrameReader(bytes.NewReader(data), max), NewFrameWriter(&back)
		for i := 0; ; i++ {
			s, n, err := r.Next()
			if err != nil {
				break
			}
			if n > max || s > StreamControl {
				t.Fatalf("frame %d of %d bytes was let through", s, n)
			}
			if skip > 0 && i%int(skip) == 0 {
				continue
			}
			p, err := r.ReadPayload(nil)
			if err != nil {
				break
			}
			if len(p) != n {
				t.Fatalf("payload of %d bytes, announced were %d", len(p), n)
			}
			_ = w.WriteFrame(s, p)
		}
		if skip == 0 && !bytes.HasPrefix(data, back.Bytes()) {
			t.Fatalf("%q was read as %q", data, back.Bytes())
		}
	})
}

func FuzzControl(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"type":"resize","rows":24,"cols":80}`, `{"type":"signal","signal":"INT"}`, `{"type":"close_stdin"}`,
		`{"type":"stdin_ack","bytes":-1}`, `{"type":"exit","result":{"exit_code":0,"denials":[{}]}}`,
		`{"type":"exit","result":null}`, `{"type":"error","error":{"error":"x","code":"busy"}}`, `{"type":"resize","rows":65536}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := DecodeControl(payload)
		if err != nil {
			wantError(t, err, CodeBadRequest, "cannot read the control frame: ")
			return
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeControl(text)
		if err != nil || again.Type != c.Type || again.Bytes != c.Bytes {
			t.Fatalf("control %+v came back as %+v: %v", c, again, err)
		}
	})
}
