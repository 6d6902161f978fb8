package agent_test

import (
	"sync"
	"testing"
	"time"
)

// Contract 001.10 and 001.11: what ignores the first signal has five seconds,
// and is killed then. The two wait together.
func TestConformStubborn(t *testing.T) {
	t.Parallel()
	conform(t)
	b := bare(t)
	mark := newMark()
	each(t, b, []call{
		{request: service("deaf", strays(mark)+"; trap '' TERM; touch deaf; while :; do sleep 1; done", `,"readiness":{"type":"file","path":"deaf"}`), want: `{"state":"running"}`},
		{request: open("deaf", ""), want: `{}`},
	})
	b.shellDo(t, "deaf", strays(mark)+"; trap '' HUP TERM; echo de''af", "deaf")
	strayed(t, b, mark)
	var answers [2]map[string]any
	var took [2]time.Duration
	var waiting sync.WaitGroup
	for i, request := range []map[string]any{{"action": "stop_service", "service_name": "deaf"}, {"action": "close_shell", "shell_id": "deaf"}} {
		waiting.Go(func() {
			begun := time.Now()
			answers[i] = b.ask(t, request)
			took[i] = time.Since(begun)
		})
	}
	waiting.Wait()
	goneBy(t, mark)
	for i, name := range []string{"service", "shell"} {
		t.Run(name, func(t *testing.T) {
			conform(t)
			contains(t, answers[i], []string{`{"state":"stopped","stop_reason":"sigkill"}`, `{"closed":true,"state":"stopped","exit_code":-9}`}[i])
			if took[i] < 4900*time.Millisecond || took[i] > 40*time.Second {
				t.Errorf("it took %v", took[i])
			}
		})
	}
}
