package agent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/wire"
)

// Of many starts of one name at once exactly one wins.
func TestServiceStartsAtOnce(t *testing.T) {
	t.Parallel()
	b := bare(t)
	var wg sync.WaitGroup
	answers := make([]map[string]any, 8)
	for i := range answers {
		wg.Go(func() {
			answers[i] = b.ask(t, map[string]any{"action": "start_service", "service_name": "one", "command": runs})
		})
	}
	wg.Wait()
	won := 0
	for _, answer := range answers {
		switch {
		case answer["state"] == "running":
			won++
		case answer["error"] != "service 'one' is already running":
			t.Errorf("got %v", answer)
		}
	}
	if won != 1 {
		t.Errorf("%d starts of 8 have won", won)
	}
	each(t, b, []call{{request: aboutService("stop", "one"), want: `{"state":"stopped","death_proved":true}`}})
}

// A wait for readiness holds nothing up, is ended by a stop at once, and goes
// on without its client.
func TestServiceWaitForReadiness(t *testing.T) {
	t.Parallel()
	b := bare(t)
	mute, err := net.Listen("tcp4", "127.0.0.1:0") // accepts and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for _, c := range []struct{ name, readiness string }{
		{"file", `{"type":"file","path":"nonesuch"}`},
		{"tcp", `{"type":"tcp","address":"127.0.0.1:1"}`},
		{"http", `{"type":"http","url":"http://` + mute.Addr().String() + `/"}`},
		{"command", `{"type":"command","command":"sleep 60"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := b.dial(t)
			request := service(c.name, "echo up; "+runs, `,"ready_interval_ms":60000,"readiness":`+c.readiness)
			if _, err := io.WriteString(conn, request+"\n"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it has started", func() bool {
				return b.ask(t, map[string]any{"action": "logs_service", "service_name": c.name})["stdout"] == "up\n"
			})
			begun := time.Now()
			each(t, b, []call{
				{request: service(c.name, runs, ""), err: "service '" + c.name + "' is already running"},
				{request: aboutService("stop", c.name), want: `{"state":"stopped","stop_reason":"sigterm","ready_at":null,"death_proved":true}`},
			})
			text, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			contains(t, answerOf(t, text), `{"state":"stopped","ready_at":null}`)
			if d := time.Since(begun); d > 40*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
	t.Run("client_gone", func(t *testing.T) {
		conn := b.dial(t)
		_, _ = io.WriteString(conn, service("left", "sleep 0.3; touch left; "+runs, `,"ready_interval_ms":10,"readiness":{"type":"file","path":"left"}`)+"\n")
		conn.Close()
		eventually(t, "it is ready", func() bool {
			return b.ask(t, map[string]any{"action": "status_service", "service_name": "left"})["ready_at"] != nil
		})
		each(t, b, []call{{request: aboutService("stop", "left"), want: `{"state":"stopped"}`}})
	})
}

// A port or an URL that somebody answers before the start is refused for who asks,
// and nothing is started. One that nobody answers is waited for as ever.
func TestServiceReadinessUnused(t *testing.T) {
	t.Parallel()
	b := bare(t)
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	t.Cleanup(func() { _ = web.Close() })
	go func() { _ = web.Serve(taken) }()
	at := taken.Addr().String()
	const unused = `,"ready_unused":true,"ready_timeout_seconds":1,"ready_interval_ms":1,"readiness":`
	each(t, b, []call{
		{request: service("taken", runs, unused+`{"type":"tcp","address":"`+at+`"}`), err: "cannot start the service: " + at + " is answered already"},
		{request: aboutService("status", "taken"), err: "service 'taken' does not exist"},
		{request: service("other", runs, unused+`{"type":"http","url":"http://`+at+`/"}`), want: `{"state":"failed","stop_reason":"readiness_timeout"}`},
		{request: service("closed", runs, unused+`{"type":"tcp","address":"127.0.0.1:1"}`), want: `{"state":"failed","stop_reason":"readiness_timeout"}`},
		{request: service("command", runs, unused+`{"type":"command","command":"true"}`), want: `{"state":"running"}`},
		{request: aboutService("stop", "command"), want: `{"state":"stopped"}`},
	})
}

// What a service leaves behind ends with it, and what it leaves its group for
// as well.
func TestServiceTrees(t *testing.T) {
	t.Parallel()
	b := bare(t)
	for _, c := range []struct{ name, command string }{
		{"exits", "%s & setsid %s & exit 0"},
		{"runs", "setsid %s & (setsid nohup %s &) ; sleep 60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := newMark()
			loop := "sh -c 'while :; do sleep 1; done' " + mark + " </dev/null >/dev/null 2>&1"
			each(t, b, []call{{request: service(c.name, fmt.Sprintf(c.command, loop, loop), ""), want: `{}`}})
			if c.name == "runs" {
				eventually(t, "they have strayed", func() bool { return len(carrying(mark)) >= 2 })
				each(t, b, []call{{request: aboutService("stop", c.name), want: `{"state":"stopped","death_proved":true}`}})
			}
			b.serviceEnds(t, c.name)
			if left := carrying(mark); len(left) > 0 {
				t.Errorf("there is still %v", left)
			}
		})
	}
}

// Everybody in the tree gets the grace, also when the main process is gone.
func TestServiceStopGrace(t *testing.T) {
	t.Parallel()
	b := bare(t)
	each(t, b, []call{
		{request: service("s", `sh -c 'trap "sleep 1; touch tidied; exit" TERM; touch up; while :; do sleep 0.1; done' & sleep 60`,
			`,"readiness":{"type":"file","path":"up"},"ready_interval_ms":5`), want: `{"state":"running"}`},
		{request: aboutService("stop", "s"), want: `{"state":"stopped","stop_reason":"sigterm","survivors_killed":0,"death_proved":true}`},
	})
	if _, err := os.Stat(filepath.Join(b.workspace, "tidied")); err != nil {
		t.Error(err)
	}
}

// A log is bounded on disk, says what it dropped, and fits into an answer
// whatever it holds.
func TestServiceLogBounds(t *testing.T) {
	t.Parallel()
	b := bare(t)
	each(t, b, []call{{request: service("flood", `yes | head -c 40000000; head -c 9000000 /dev/zero >&2; echo end`, ""), want: `{}`}})
	b.serviceEnds(t, "flood")
	for _, name := range []string{"flood.stdout", "flood.stderr"} {
		st, err := os.Stat(filepath.Join(b.services, name))
		if err != nil || st.Size() > 8<<20 || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	each(t, b, []call{{request: `{"action":"logs_service","service_name":"flood","tail_lines":2}`,
		want: `{"stdout":"y\nend\n","stdout_truncated":true,"stderr_truncated":true,"truncated":true}`}})
	answer := b.ask(t, map[string]any{"action": "logs_service", "service_name": "flood"})
	if stdout, _ := answer["stdout"].(string); !strings.HasSuffix(stdout, "y\nend\n") || len(stdout) < 2<<20 || answer["stderr"] == "" {
		t.Errorf("got %d bytes of stdout, %.100v", len(stdout), answer["error"])
	}
}

// A record that an earlier agent left is told; what it said to run and does
// not has exited.
func TestServiceAgentRestart(t *testing.T) {
	t.Parallel()
	b := bare(t)
	each(t, b, []call{
		{request: service("ended", "echo kept; exit 3", ""), want: `{}`},
		{request: service("ran", runs, ""), want: `{"state":"running"}`},
	})
	b.serviceEnds(t, "ended")
	_ = syscall.Kill(b.pid, syscall.SIGKILL)
	<-b.exited
	next := bare(t, "--workspace", b.workspace, "--service-root", b.services)
	answer := next.serviceEnds(t, "ran")
	contains(t, answer, `{"state":"exited","exit_code":null,"stop_reason":null}`)
	each(t, next, []call{
		{request: `{"action":"logs_service","service_name":"ended"}`, want: `{"state":"exited","exit_code":3,"stdout":"kept\n"}`},
		{request: aboutService("stop", "ran"), want: `{"state":"exited"}`},
		{request: service("ran", runs, ""), want: `{"state":"running"}`},
	})
	listed := next.ask(t, map[string]any{"action": "list_services"})
	var names []string
	text, _ := json.Marshal(listed["services"])
	var list []wire.Service
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		names = append(names, s.ServiceName+" "+s.State)
	}
	if got := strings.Join(names, ", "); got != "ended exited, ran running" {
		t.Errorf("got %q", got)
	}
	each(t, next, []call{{request: aboutService("stop", "ran"), want: `{"state":"stopped"}`}})
}

// More than maxServices do not run at a time.
func TestServiceLimit(t *testing.T) {
	t.Parallel()
	b := bare(t)
	for i := range 64 {
		each(t, b, []call{{request: service(fmt.Sprintf("s%d", i), "exec sleep 60", ""), want: `{"state":"running"}`}})
	}
	each(t, b, []call{
		{request: service("more", runs, ""), err: "cannot start the service: too many are running"},
		{request: aboutService("stop", "s7"), want: `{"state":"stopped"}`},
		{request: service("more", runs, ""), want: `{"state":"running"}`},
	})
}

// Inside walls logs are in memory, and a service is seen by its probes.
func TestServiceInsideWalls(t *testing.T) {
	t.Parallel()
	b := start(t)
	conn, err := b.dial(b.context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := wire.WriteLine(conn, map[string]any{"action": "start_service", "service_name": "s", "command": "echo up; touch up; sleep 60",
		"readiness": map[string]any{"type": "file", "path": "up"}, "ready_interval_ms": 5}); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, answerOf(t, text), `{"state":"running"}`)
	for _, c := range []struct{ request, want string }{
		{`{"action":"logs_service","service_name":"s"}`, `{"stdout":"up\n"}`},
		{aboutService("stop", "s"), `{"state":"stopped","death_proved":true}`},
		{`{"action":"logs_service","service_name":"s","tail_lines":0}`, `{"stdout":"","truncated":true}`},
	} {
		conn, err := b.dial(b.context())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, c.request+"\n")
		text, err := io.ReadAll(conn)
		conn.Close()
		if err != nil {
			t.Fatal(err)
		}
		contains(t, answerOf(t, text), c.want)
	}
}
