package agent_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/wire"
)

// takes is what the agent itself says it takes.
type takes struct{ goroutines, descriptors, connections int }

func (b *bareAgent) takes(t *testing.T) takes {
	t.Helper()
	u, _ := b.ask(t, map[string]any{"action": "usage"})["agent"].(map[string]any)
	n := func(key string) int { f, _ := u[key].(float64); return int(f) }
	return takes{n("goroutines"), n("descriptors"), n("connections")}
}

// leaksNothing runs do twice: the second time must not leave more than the first.
func (b *bareAgent) leaksNothing(t *testing.T, do func()) {
	t.Helper()
	do()
	eventually(t, "the agent is alone with the one who asks", func() bool { return b.takes(t).connections == 1 })
	before := b.takes(t)
	do()
	eventually(t, fmt.Sprintf("the agent takes no more than %+v", before), func() bool {
		now := b.takes(t)
		return now.connections <= before.connections && now.descriptors <= before.descriptors && now.goroutines <= before.goroutines
	})
}

// However many hold connections open and say nothing, somebody new is served;
// those who have waited longest make room.
func TestIdleFlood(t *testing.T) {
	b := bare(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := min(10_000, int(limit.Cur)-500)
	served := b.dial(t) // asks before the flood, and is answered after it
	if err := wire.WriteLine(served, map[string]any{"argv": []string{"sh", "-c", "while ! test -e go; do sleep 0.1; done; echo x"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a command runs", func() bool { return len(b.runs(t)) == 1 })
	conns := make([]*net.UnixConn, n)
	for i := range conns {
		conns[i] = b.dial(t)
		if i%3 == 0 { // an incomplete request is none
			_, _ = conns[i].Write([]byte(`{"action":`))
		}
		if i%1000 == 0 {
			if res := b.ask(t, map[string]any{"argv": []string{"true"}}); res["exit_code"] != 0.0 {
				t.Fatalf("with %d idle connections: %v", i, res)
			}
		}
	}
	if got := b.takes(t); got.connections > 512 || got.descriptors > 1200 {
		t.Errorf("with %d idle connections the agent takes %+v", n, got)
	}
	line, _ := bufio.NewReader(conns[0]).ReadString('\n')
	if !strings.Contains(line, `"code":"busy"`) {
		t.Errorf("the oldest was told %q", line)
	}
	if _, err := conns[n-1].Write([]byte(`{"action":"hello"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(conns[n-1]).ReadString('\n'); (n-1)%3 != 0 && !strings.Contains(line, `"features"`) {
		t.Errorf("the youngest was told %q", line)
	}
	for _, conn := range conns {
		conn.Close()
	}
	if err := os.WriteFile(b.workspace+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(served).ReadString('\n'); !strings.Contains(line, `"stdout":"x\n"`) {
		t.Errorf("who was served before the flood was told %q", line)
	}
}

// A client that hangs up after any part of any exchange costs the agent nothing.
func TestHangUpsAtEveryPoint(t *testing.T) {
	b := bare(t)
	requests := map[string]string{
		"hello":    `{"action":"hello"}`,
		"exec":     `{"command":"echo x"}`,
		"stream":   `{"argv":["echo","x"],"stream":true}`,
		"usage":    `{"action":"usage"}`,
		"signal":   `{"action":"signal","id":"e0","signal":"INT"}`,
		"kill":     `{"action":"kill","id":"e0"}`,
		"unknown":  `{"action":"fly"}`,
		"no JSON":  `{"action":}`,
		"extract":  `{"action":"extract_archive","archive_size":512}`,
		"secrets":  `{"action":"install_secrets","archive_size":512}`,
		"export":   `{"action":"export_archive"}`,
		"list":     `{"action":"list_workspace"}`,
		"read":     `{"action":"read_workspace_file","path":"x"}`,
		"write":    `{"action":"write_workspace_file","path":"x","text":"x"}`,
		"delete":   `{"action":"delete_workspace_path","path":"x"}`,
		"shells":   `{"action":"list_shells"}`,
		"services": `{"action":"list_services"}`,
		"upload":   `{"action":"write_file","path":"y","size":100}`,
		"download": `{"action":"read_file","path":"y"}`,
	}
	b.leaksNothing(t, func() {
		for _, request := range requests {
			text := request + "\n" + strings.Repeat("x", 40) // the beginning of a body, or too much
			points := []int{0, 1, len(request) / 2, len(request), len(request) + 1, len(text)}
			for _, at := range points {
				for _, how := range []string{"close", "reset", "half"} {
					conn := b.dial(t)
					_, _ = conn.Write([]byte(text[:at]))
					switch how {
					case "reset": // unread bytes make the kernel send one
						_ = conn.SetReadDeadline(time.Now())
						_, _ = conn.Read(make([]byte, 1))
					case "half":
						_ = conn.CloseWrite()
						_, _ = conn.Read(make([]byte, 1))
					}
					conn.Close()
				}
			}
		}
	})
	if res := b.ask(t, map[string]any{"command": "echo x"}); res["stdout"] != "x\n" {
		t.Errorf("afterwards: %v", res)
	}
}

func TestOneRequestPerConnection(t *testing.T) {
	b := bare(t)
	got := b.raw(t, []byte(`{"command":"echo 1"}`+"\r\n"+`{"command":"echo 2"}`+"\n"))
	if bytes.Count(got, []byte("\n")) != 1 || !bytes.Contains(got, []byte(`"stdout":"1\n"`)) {
		t.Errorf("got %s", got)
	}
	got = b.raw(t, []byte(`  {"action":"hello","keep_alive":true}  `+"\n"+`{"command":"echo 2"}`+"\n"))
	if bytes.Count(got, []byte("\n")) != 2 || !bytes.Contains(got, []byte(`"stdout":"2\n"`)) {
		t.Errorf("kept alive: %s", got)
	}
}

func TestLongLine(t *testing.T) {
	b := bare(t)
	conn := b.dial(t)
	go func() {
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range 40 {
			if _, err := conn.Write(chunk); err != nil {
				return
			}
		}
	}()
	line, err := bufio.NewReader(conn).ReadBytes('\n')
	if err != nil || !bytes.Contains(line, []byte(`"code":"too_large"`)) {
		t.Errorf("got %q, %v", line, err)
	}
}

// What one command does not say, and how long it takes, is no other's matter.
func TestConnectionsAreServedAtOnce(t *testing.T) {
	b := bare(t)
	half := b.dial(t)
	if _, err := half.Write([]byte(`{"acti`)); err != nil {
		t.Fatal(err)
	}
	mark := newMark()
	long := b.dial(t)
	if err := wire.WriteLine(long, map[string]any{"argv": []string{helperDir + "/helper", "wait", mark}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a long command runs", func() bool { return len(carrying(mark)) == 1 })
	if res := b.ask(t, map[string]any{"command": "echo x"}); res["stdout"] != "x\n" {
		t.Errorf("meanwhile: %v", res)
	}
	long.Close()
	eventually(t, "the long one is dead", func() bool { return len(carrying(mark)) == 0 })
}

func TestManageByID(t *testing.T) {
	b := bare(t)
	mark := newMark()
	done := make(chan map[string]any, 1)
	go func() {
		done <- b.sh(t, `trap "echo got it" USR1; "$0" alloc 1 2>/dev/null; "$0" wait "$1" & echo; while :; do wait; done`, mark, nil)
	}()
	eventually(t, "the command runs", func() bool { return len(carrying(mark)) > 1 })
	trees := b.runs(t)
	if len(trees) != 1 {
		t.Fatalf("usage: %v", trees)
	}
	tree := trees[0]
	id, _ := tree["id"].(string)
	started, _ := tree["started_at"].(float64)
	if tree["kind"] != "exec" || tree["name"] != "/bin/sh" || tree["processes"].(float64) < 2 || tree["memory_bytes"].(float64) < 1<<20 ||
		tree["complete"] != true || time.Since(time.UnixMicro(int64(started*1e6))) > patience || tree["pid"].(float64) < 2 {
		t.Errorf("usage: %v", tree)
	}
	for name, tt := range map[string]struct {
		request     map[string]any
		error, code string
	}{
		"signal nobody":     {map[string]any{"action": "signal", "id": "e999", "signal": "INT"}, "no exec, shell or service has the id e999", "not_found"},
		"kill nobody":       {map[string]any{"action": "kill", "id": "x\ny"}, "no exec, shell or service has the id x\ny", "not_found"},
		"kill without id":   {map[string]any{"action": "kill"}, "id is required", "bad_request"},
		"an unknown signal": {map[string]any{"action": "signal", "id": id, "signal": "FLY"}, `unknown signal "FLY"`, "bad_request"},
		"no signal":         {map[string]any{"action": "signal", "id": id}, `unknown signal ""`, "bad_request"},
	} {
		if res := b.ask(t, tt.request); res["error"] != tt.error || res["code"] != tt.code {
			t.Errorf("%s: %v", name, res)
		}
	}
	if res := b.ask(t, map[string]any{"action": "signal", "id": id, "signal": "usr1"}); res["signal"] != "SIGUSR1" || res["id"] != id {
		t.Errorf("signal: %v", res)
	}
	res := b.ask(t, map[string]any{"action": "kill", "id": id})
	if n, _ := res["killed"].(float64); n < 2 || res["death_proved"] != true {
		t.Errorf("kill: %v", res)
	}
	if res := <-done; res["exit_code"] != -9.0 || res["signal"] != "SIGKILL" || res["id"] != id || res["timed_out"] != false {
		t.Errorf("the killed command: %v", res)
	}
	if res := b.ask(t, map[string]any{"action": "kill", "id": id}); res["code"] != "not_found" {
		t.Errorf("a second kill: %v", res)
	}
	if trees := b.runs(t); len(trees) > 0 || len(carrying(mark)) > 0 {
		t.Errorf("left are %v, %v", trees, carrying(mark))
	}
}

// A signal for a command with a terminal goes to the job in the foreground.
func TestSignalGoesToTheForeground(t *testing.T) {
	b := bare(t)
	mark := newMark()
	conn := b.dial(t)
	if err := wire.WriteLine(conn, map[string]any{"argv": []string{"bash", "--norc", "-ic", `"$0" wait "$1"; echo "status $?"`, helperDir + "/helper", mark},
		"stream": true, "tty": map[string]any{"rows": 24, "cols": 80}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job runs", func() bool { return len(carrying(mark)) == 2 })
	b.ask(t, map[string]any{"action": "signal", "id": b.runs(t)[0]["id"], "signal": "TERM"})
	in := bufio.NewReader(conn)
	var all bytes.Buffer
	if _, err := all.ReadFrom(in); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Fatal(err)
	}
	if !bytes.Contains(all.Bytes(), []byte("status 143")) {
		t.Errorf("the shell said %q", all.String())
	}
}

func TestShutdownIsNotForSandboxes(t *testing.T) {
	b := start(t)
	r := b.raw()
	r.write(`{"action":"shutdown"}` + "\n")
	r.refused(wire.CodeUnsupported)
	r.ended()
	b.works()
	mark := newMark()
	s := b.stream(wire.ExecRequest{Argv: []string{"sh", "-c", `"$0" wait "$1" & echo ready; wait`, helper, mark}})
	s.says("ready")
	u, err := wire.Call(b.context(), b.client, wire.Usage, wire.UsageRequest{})
	if err != nil || len(u.Trees) != 1 || u.Trees[0].ID != s.id || u.Trees[0].Processes != 2 || !u.Trees[0].Complete || u.Trees[0].PID < 2 {
		text, _ := json.Marshal(u)
		t.Errorf("usage: %s, %v", text, err)
	}
	if k, err := wire.Call(b.context(), b.client, wire.Kill, wire.KillRequest{ID: s.id}); err != nil || k.Killed != 2 || !k.DeathProved {
		t.Errorf("kill: %+v, %v", k, err)
	}
	if res := s.exit(); res.ExitCode != -9 {
		t.Errorf("the result: %+v", res)
	}
}
