package agent_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var defectsOfProcesses = []defect{
	{15, "timeout_kills_only_the_shell", timeoutKillsTree},
	{16, "output_lost", outputKept},
	{17, "background_jobs_hold_the_answer", backgroundJobs},
	{18, "services_unreaped", servicesReaped},
	{19, "stop_misses_new_sessions", stopEndsTrees},
	{20, "readiness_after_the_start", readinessFirst},
	{21, "process_id_reuse", reusedIDs},
	{22, "signals_miss_the_foreground", foregroundSignals},
	{23, "terminal_input_lost", terminalInput},
	{24, "inherited_stdin_and_signals", cleanStart},
	{25, "working_directory", workingDirectory},
}

// strays is a command that leaves processes of every sort behind, all of them
// with mark in their command lines.
func strays(mark string) string {
	wait := `sh -c 'while :; do sleep 1; done' ` + mark
	return strings.Join([]string{
		wait, // a job
		"setsid " + wait + " </dev/null >/dev/null 2>&1",           // a session of its own
		"(setsid nohup " + wait + " </dev/null >/dev/null 2>&1 &)", // that lost its parent
		"(trap '' HUP TERM INT; exec " + wait + ")",                // deaf
	}, " & ") + " & touch started-" + mark
}

// strayed waits until the strays run.
func strayed(t *testing.T, b *bareAgent, mark string) {
	t.Helper()
	eventually(t, "the strays run", func() bool {
		_, err := os.Stat(filepath.Join(b.workspace, "started-"+mark))
		return err == nil && len(carrying(mark)) >= 4
	})
}

// goneBy fails if processes with mark are left a moment later, in which they are reaped.
// It ends before they would by themselves, after 60 s.
func goneBy(t *testing.T, mark string) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); len(carrying(mark)) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("processes %v are left", carrying(mark))
			return
		}
	}
}

func timeoutKillsTree(t *testing.T, b *bareAgent) {
	mark := newMark()
	answer := b.ask(t, map[string]any{"command": strays(mark) + "; sleep 60", "timeout_seconds": 1})
	contains(t, answer, `{"exit_code":124}`)
	if _, err := os.Stat(filepath.Join(b.workspace, "started-"+mark)); err != nil {
		t.Errorf("the strays did not start: %v", err)
	}
	goneBy(t, mark)
}

func outputKept(t *testing.T, b *bareAgent) {
	each(t, b, []call{
		{request: `{"command":"echo out; echo err >&2; sleep 60","timeout_seconds":1}`, want: `{"exit_code":124,"stdout":"out\n","stderr":"err\ncommand timed out after 1s"}`},
		{request: `{"command":"printf 'a\\377b\\r\\nc\\rd'"}`, want: `{"stdout":"a\ufffdb\r\nc\rd","exit_code":0}`},
	})
}

func backgroundJobs(t *testing.T, b *bareAgent) {
	begun := time.Now()
	each(t, b, []call{
		{request: `{"command":"sleep 60 & echo x"}`, want: `{"stdout":"x\n","exit_code":0}`},
		{request: `{"command":"setsid sleep 60 & echo x"}`, want: `{"stdout":"x\n","exit_code":0}`},
	})
	if d := time.Since(begun); d > 40*time.Second {
		t.Errorf("it took %v", d)
	}
}

func servicesReaped(t *testing.T, b *bareAgent) {
	begun := time.Now()
	each(t, b, []call{{request: service("s", "exit 3", ""), want: `{}`}})
	contains(t, b.serviceEnds(t, "s"), `{"state":"exited","exit_code":3}`)
	each(t, b, []call{
		{request: service("s", "exit 4", `,"readiness":{"type":"file","path":"nonesuch"},"ready_interval_ms":1`),
			want: `{"state":"failed","stop_reason":"process_exited_before_ready","exit_code":4}`},
		{request: service("s", "exit 5", `,"readiness":{"type":"file","path":"nonesuch"},"ready_interval_ms":60000`),
			want: `{"state":"failed","stop_reason":"process_exited_before_ready","exit_code":5}`}, // not at the next look only
		{request: service("s", "kill -9 $$", `,"readiness":{"type":"file","path":"nonesuch"}`), want: `{"state":"failed","stop_reason":"process_exited_before_ready"}`},
		{request: service("s", runs, ""), want: `{"state":"running"}`},
		{request: aboutService("stop", "s"), want: `{"state":"stopped","stop_reason":"sigterm"}`},
		{request: service("s", runs, `,"readiness":{"type":"file","path":"nonesuch"},"ready_timeout_seconds":0`), want: `{"state":"failed","stop_reason":"readiness_timeout"}`},
	})
	if d := time.Since(begun); d > 40*time.Second {
		t.Errorf("it took %v", d)
	}
	eventually(t, "no child of the agent waits to be reaped", func() bool {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", b.pid))
		for _, list := range lists {
			text, _ := os.ReadFile(list)
			for _, pid := range strings.Fields(string(text)) {
				if state, _ := os.ReadFile("/proc/" + pid + "/status"); strings.HasPrefix(status(string(state), "State"), "Z") {
					return false
				}
			}
		}
		return true
	})
	// A child that needs its time is given it, though the runner dies at once.
	each(t, b, []call{
		{request: service("slow", `trap 'sleep 1; touch tidied; exit' TERM; touch slow; while :; do sleep 0.1; done`, `,"readiness":{"type":"file","path":"slow"}`), want: `{"state":"running"}`},
		{request: aboutService("stop", "slow"), want: `{"state":"stopped","stop_reason":"sigterm"}`},
	})
	holds(t, "", b.workspace, "tidied")
}

func stopEndsTrees(t *testing.T, b *bareAgent) {
	mark := newMark()
	// Those that are deaf take their five seconds: TestConformStubborn.
	quick := func() string { return strings.ReplaceAll(strays(mark), "trap '' HUP TERM INT; ", "") }
	each(t, b, []call{{request: service("s", quick()+"; sleep 60", ""), want: `{"state":"running"}`}})
	strayed(t, b, mark)
	each(t, b, []call{{request: aboutService("stop", "s"), want: `{"state":"stopped"}`}})
	goneBy(t, mark)
	mark = newMark()
	each(t, b, []call{
		{request: open("s", ""), want: `{}`},
		{request: `{"action":"write_shell","shell_id":"s","input":` + quoted(quick()) + `}`, want: `{}`},
	})
	strayed(t, b, mark)
	each(t, b, []call{{request: `{"action":"close_shell","shell_id":"s"}`, want: `{"closed":true,"state":"stopped"}`}})
	goneBy(t, mark)
}

func readinessFirst(t *testing.T, b *bareAgent) {
	for _, readiness := range []string{
		`{}`, `{"type":"dns"}`, `{"type":"File","path":"x"}`, `{"type":"file"}`, `{"type":"file","path":"../x"}`, `{"type":"file","path":""}`,
		`{"type":"tcp"}`, `{"type":"tcp","address":"localhost"}`, `{"type":"tcp","address":"localhost:port"}`, `{"type":"tcp","address":"localhost:70000"}`,
		`{"type":"http"}`, `{"type":"http","url":"no address"}`, `{"type":"http","url":"file:///etc/passwd"}`, `{"type":"command"}`,
	} {
		each(t, b, []call{{request: service("s", "touch ran; "+runs, `,"readiness":`+readiness), err: anyError}})
	}
	each(t, b, []call{{request: aboutService("status", "s"), err: "service 's' does not exist"}})
	absent(t, b.workspace, "ran")
	mute, err := net.Listen("tcp4", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	rude, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer rude.Close()
	go func() {
		for {
			conn, err := rude.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-none\r\n"))
			conn.Close()
		}
	}()
	mark := newMark()
	begun := time.Now()
	var waiting sync.WaitGroup
	for i, readiness := range []string{
		`{"type":"http","url":"http://` + rude.Addr().String() + `/"}`, `{"type":"http","url":"http://` + mute.Addr().String() + `/"}`,
		`{"type":"command","command":"sh -c 'while :; do sleep 1; done' ` + mark + `"}`, `{"type":"command","command":"setsid sleep 60 & sleep 60"}`,
	} {
		waiting.Go(func() {
			each(t, b, []call{{request: service(strconv.Itoa(i), runs, `,"ready_timeout_seconds":1,"ready_interval_ms":50,"readiness":`+readiness),
				want: `{"state":"failed","stop_reason":"readiness_timeout"}`}})
		})
	}
	waiting.Wait()
	if d := time.Since(begun); d > 40*time.Second {
		t.Errorf("a second took %v", d)
	}
	goneBy(t, mark)
}

// reusedIDs starts an agent over the state of one that was killed. A process
// that has nothing to do with it has got the service's process id.
func reusedIDs(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: service("s", runs, ""), want: `{"state":"running"}`}})
	_ = syscall.Kill(b.pid, syscall.SIGKILL)
	<-b.exited
	innocent := exec.Command("sleep", "60")
	innocent.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- innocent.Wait() }()
	defer func() { _ = innocent.Process.Kill() }()
	records, _ := filepath.Glob(filepath.Join(b.services, "s*.json"))
	for _, record := range records {
		fields := map[string]any{}
		text, err := os.ReadFile(record)
		if err == nil {
			err = json.Unmarshal(text, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		fields["pid"] = innocent.Process.Pid
		text, _ = json.Marshal(fields)
		if err := os.WriteFile(record, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := bare(t, "--workspace", b.workspace, "--service-root", b.services)
	for _, action := range []string{"status", "stop", "logs"} {
		answer := answerOf(t, next.exchange(t, []byte(aboutService(action, "s")+"\n")))
		if answer["state"] == "running" {
			t.Errorf("%s: got %v", action, answer)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("a process of no concern was killed: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	each(t, next, []call{{request: service("s", runs, ""), want: `{"state":"running"}`}, {request: aboutService("stop", "s"), want: `{"state":"stopped"}`}})
}

func foregroundSignals(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: open("s", ""), want: `{}`}})
	b.shellDo(t, "s", "sh -c 'echo wai''ting; exec sleep 60'; echo sta''tus $?", "waiting")
	each(t, b, []call{{request: `{"action":"signal_shell","shell_id":"s","signal":"INT"}`, want: `{"signal":"INT","state":"running"}`}})
	b.shellRead(t, "s", "pyro$ ")
	b.shellDo(t, "s", "sh -c 'trap \"echo got-it; exit 3\" TERM; echo wai''ting-2; while :; do sleep 0.1; done'; echo sta''tus $?", "waiting-2")
	each(t, b, []call{{request: `{"action":"signal_shell","shell_id":"s","signal":"TERM"}`, want: `{"signal":"TERM","state":"running"}`}})
	b.shellRead(t, "s", "status 3")
	b.closeShell(t, "s")
}

func terminalInput(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: open("s", ""), want: `{}`}})
	// Much more than a terminal holds arrives whole where somebody reads.
	b.shellDo(t, "s", "stty -echo raw; echo rea''dy; head -c 600000 > got; stty sane; echo do''ne", "ready")
	for range 10 {
		each(t, b, []call{{request: `{"action":"write_shell","shell_id":"s","append_newline":false,"input":"` + strings.Repeat("0123456789", 6000) + `"}`, want: `{"input_length":60000}`}})
	}
	b.shellRead(t, "s", "done")
	holds(t, strings.Repeat("0123456789", 60000), b.workspace, "got")
	// Where nobody reads, a client is told, in time, and no other one waits.
	b.shellDo(t, "s", "stty -echo raw; echo rea''dy-2; sleep 60", "ready-2")
	begun := time.Now()
	answer := b.ask(t, map[string]any{"action": "write_shell", "shell_id": "s", "input": strings.Repeat("x", 1<<20)})
	if text, _ := answer["error"].(string); !strings.HasPrefix(text, "failed to write shell input: ") {
		t.Errorf("got %.300v", answer)
	}
	if d := time.Since(begun); d > 50*time.Second {
		t.Errorf("it took %v", d)
	}
	contains(t, b.closeShell(t, "s"), `{"closed":true}`)
}

func cleanStart(t *testing.T, _ *bareAgent) {
	b := bareCommand(t, func(cmd *exec.Cmd, _ string) {
		cmd.Path = "/bin/sh" // as a shell starts what it puts into the background
		cmd.Args = append([]string{"sh", "-c", `trap '' INT QUIT HUP TERM PIPE USR1; exec "$0" "$@"`, agentPath}, cmd.Args[1:]...)
		in, _, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close() })
		cmd.Stdin = in
	})
	const look = "grep -E '^Sig(Ign|Blk)' /proc/self/status | tr -d '\\t\\n'; head -c 1 | wc -c"
	const want = "SigIgn:0000000000000000"
	clean := func(what, text string) {
		var blocked, ignored uint64
		for _, field := range strings.Split(strings.ReplaceAll(text, "Sig", "\nSig"), "\n") {
			name, value, _ := strings.Cut(field, ":")
			if n, err := strconv.ParseUint(value[:min(16, len(value))], 16, 64); err == nil && name == "SigIgn" {
				ignored = n
			} else if err == nil && name == "SigBlk" {
				blocked = n
			}
		}
		const mine = 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGQUIT-1) | 1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGPIPE-1) | 1<<(syscall.SIGUSR1-1)
		if !strings.Contains(text, "SigIgn") || ignored&mine != 0 || blocked != 0 {
			t.Errorf("%s: %s; %s is wanted", what, text, want)
		}
	}
	answer := b.ask(t, map[string]any{"command": look})
	out, _ := answer["stdout"].(string)
	if clean("exec", out); !strings.HasSuffix(out, "0\n") {
		t.Errorf("an exec's standard input: %q", out)
	}
	each(t, b, []call{{request: service("s", look, ""), want: `{}`}})
	b.serviceEnds(t, "s")
	out, _ = b.ask(t, map[string]any{"action": "logs_service", "service_name": "s"})["stdout"].(string)
	if clean("service", out); !strings.HasSuffix(out, "0\n") {
		t.Errorf("a service's standard input: %q", out)
	}
	each(t, b, []call{{request: open("s", ""), want: `{}`}})
	clean("shell", b.shellDo(t, "s", "sh -c 'grep -E ^Sig.[gl] /proc/self/status'; echo te''rminal > /dev/tty", "terminal"))
	b.closeShell(t, "s")
}

func workingDirectory(t *testing.T, b *bareAgent) {
	each(t, b, []call{{request: `{"command":"pwd -P; touch here"}`, want: `{"stdout":` + quoted(b.workspace+"\n") + `}`}})
	holds(t, "", b.workspace, "here")
}
