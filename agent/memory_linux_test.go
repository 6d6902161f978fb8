package agent_test

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// memory is how much the agent itself has now, and the most that it had.
func (b *bareAgent) memory(t *testing.T, more map[string]any) (now, most float64) {
	t.Helper()
	q := map[string]any{"action": "usage"}
	for k, v := range more {
		q[k] = v
	}
	u, _ := b.ask(t, q)["agent"].(map[string]any)
	now, _ = u["memory_bytes"].(float64)
	most, _ = u["peak_memory_bytes"].(float64)
	if now == 0 || most == 0 {
		t.Fatalf("the agent says nothing of its memory: %v", u)
	}
	return now, most
}

const mib = 1 << 20

// Whoever has not brought the token gets no memory for what it says instead.
func TestUnprovedLinesAreShort(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a\"é"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := bare(t, "--token-file", file)
	token := map[string]any{"token": "a\"é"}
	long := `{"token":"` + strings.Repeat("a", 4*mib)
	conns := make([]net.Conn, 40)
	for i := range conns {
		conns[i] = b.dial(t)
		if _, err := conns[i].Write([]byte(long)); err != nil {
			t.Fatalf("what follows a refused line is not read: %v", err)
		}
	}
	if res := b.ask(t, map[string]any{"argv": []string{"wc", "-c"}, "token": "a\"é"}); res["exit_code"] != 0.0 {
		t.Errorf("who has the token is not served: %v", res)
	}
	if _, most := b.memory(t, token); most > 32*mib {
		t.Errorf("strangers made the agent use %.0f MiB", most/mib)
	}
	for _, conn := range conns {
		line, _ := bufio.NewReader(conn).ReadString('\n')
		if !strings.Contains(line, `"code":"unauthorized"`) || !strings.Contains(line, "first 8192 bytes") {
			t.Fatalf("a stranger was told %q", line)
		}
		conn.Close()
	}
}

func TestPlaceOfTheToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("a\"é"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := bare(t, "--token-file", file)
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, tt := range map[string]struct{ line, want string }{
		"first in a long line":  {`{"token":"a\"é","argv":["wc","-c"],"stdin":"` + x(15*mib) + `"}`, `"stdout":"15728640\n"`},
		"after other fields":    {`{"argv":["wc","-c"],"env":{"token":"A"},"b":["token"], "token" : "\u0061\"é","stdin":"` + x(mib) + `"}`, `"stdout":"1048576\n"`},
		"last in a short line":  {`{"argv":["wc","-c"],"stdin":"` + x(8000) + `","token":"a\"é"}`, `"stdout":"8000\n"`},
		"last in a long line":   {`{"argv":["wc","-c"],"stdin":"` + x(mib) + `","token":"a\"é"}`, `"code":"unauthorized"`},
		"of another object":     {`{"env":{"token":"a\"é"},"stdin":"` + x(mib) + `"}`, `"code":"unauthorized"`},
		"in a text":             {`{"command":"\"token\":\"a\\\"é\"","stdin":"` + x(mib) + `"}`, `"code":"unauthorized"`},
		"wrong in a long line":  {`{"token":"a","stdin":"` + x(mib) + `"}`, `"code":"unauthorized"`},
		"right, then wrong":     {`{"token":"a\"é","stdin":"` + x(mib) + `","token":"a"}`, `"code":"unauthorized"`},
		"no text in a long one": {`{"token":["a\"é"],"stdin":"` + x(mib) + `"}`, `"code":"unauthorized"`},
	} {
		if got := b.exchange(t, []byte(tt.line+"\n")); !strings.Contains(string(got), tt.want) {
			t.Errorf("%s: got %.300q, want %s", name, got, tt.want)
		}
	}
}

// All request lines together have so much room and no more. Who finds none
// waits, and is told so; short lines are served all the same.
func TestLinesShareRoom(t *testing.T) {
	b := bare(t)
	half := []byte(`{"stdin":"` + strings.Repeat("x", 9*mib)) // half of the room is kept for each
	holders := []net.Conn{b.dial(t), b.dial(t)}
	for _, conn := range holders {
		if _, err := conn.Write(half); err != nil {
			t.Fatal(err)
		}
	}
	long := []byte(`{"argv":["wc","-c"],"stdin":"` + strings.Repeat("x", 4*mib) + `"}` + "\n")
	if got := b.exchange(t, long); !strings.Contains(string(got), `"code":"busy"`) || !strings.Contains(string(got), `"hint"`) {
		t.Errorf("without room: %.300q", got)
	}
	short := []byte(`{"argv":["wc","-c"],"stdin":"` + strings.Repeat("x", 15<<10) + `"}` + "\n")
	if got := b.exchange(t, short); !strings.Contains(string(got), `"stdout":"15360\n"`) {
		t.Errorf("a short line: %.300q", got)
	}
	if _, most := b.memory(t, nil); most > 96*mib {
		t.Errorf("the agent has used %.0f MiB", most/mib)
	}
	waiting := b.dial(t)
	if _, err := waiting.Write(long[:64<<10]); err != nil {
		t.Fatal(err)
	}
	for _, conn := range holders {
		conn.Close()
	}
	if _, err := waiting.Write(long[64<<10:]); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(waiting).ReadString('\n'); !strings.Contains(line, `"stdout":"4194304\n"`) {
		t.Errorf("who waited for room was told %.300q", line)
	}
	eventually(t, "memory is given back", func() bool { now, _ := b.memory(t, nil); return now < 20*mib })
}

// What a request means to decode, or to refuse, is no multiple of its line.
func TestLongRequestsStaySmall(t *testing.T) {
	list := func(value string) string {
		return strings.TrimSuffix(strings.Repeat(value+",", 15*mib/(len(value)+1)), ",")
	}
	for name, tt := range map[string]struct{ line, want string }{
		"an action":    {`{"action":"` + strings.Repeat("a", 15*mib) + `"}`, `"code":"unknown_action"`},
		"a program":    {`{"argv":["/` + strings.Repeat("a", 15*mib) + `"]}`, `"code":`},
		"numbers":      {`{"argv":[` + list("0") + `]}`, `"code":"too_large"`},
		"texts":        {`{"argv":[` + list(`""`) + `]}`, `"code":"too_large"`},
		"odd names":    {`{` + list(`"A":0`) + `}`, `"code":"too_large"`},
		"a thousand":   {`{"argv":["true",` + strings.TrimSuffix(strings.Repeat("0,", 1000), ",") + `]}`, `"exit_code":0`},
		"many numbers": {`{"argv":[` + strings.TrimSuffix(strings.Repeat("0,", 250_000), ",") + `]}`, `"code":"not_found"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bare(t)
			got := b.exchange(t, []byte(tt.line+"\n"))
			if !strings.Contains(string(got), tt.want) || len(got) > 256<<10 {
				t.Errorf("got %d bytes: %.300q", len(got), got)
			}
			if _, most := b.memory(t, nil); most > 96*mib {
				t.Errorf("the agent has used %.0f MiB", most/mib)
			}
			eventually(t, "memory is given back", func() bool { now, _ := b.memory(t, nil); return now < 40*mib })
		})
	}
}

// A connection that has to make room for others gives back what its line held.
func TestRefusedLineGivesRoomBack(t *testing.T) {
	b := bare(t)
	half := []byte(`{"stdin":"` + strings.Repeat("x", 9*mib))
	for range 3 {
		for _, end := range []string{"", "\n", "\"}{\n", "\x00\n"} {
			holders := []net.Conn{b.dial(t), b.dial(t)}
			for _, conn := range holders {
				_ = conn.SetDeadline(time.Now().Add(patience))
				if _, err := conn.Write(half); err != nil {
					t.Fatal(err)
				}
				_, _ = conn.Write([]byte(end))
			}
			for _, conn := range holders {
				conn.Close()
			}
		}
	}
	line := []byte(`{"argv":["wc","-c"],"stdin":"` + strings.Repeat("x", 15*mib) + `"}` + "\n")
	if got := b.exchange(t, line); !strings.Contains(string(got), `"stdout":"15728640\n"`) {
		t.Errorf("afterwards: %.300q", got)
	}
}
