package table

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/op/internal/registry"
)

// The last lines are found, and who waits is woken.
func TestOutputTailAndWait(t *testing.T) {
	env := &op.Env{Outputs: &output.Outputs{}, Sandboxes: &registry.Sandboxes{}}
	n := env.Outputs.New("")
	_, _ = n.Write([]byte("one\ntwo\nthree\n"))
	for lines, want := range map[int]string{1: "three\n", 2: "two\nthree\n", 3: "one\ntwo\nthree\n", 9: "one\ntwo\nthree\n"} {
		if out := well[output.OutputReadOutput](t, env, "output_read", fields{"output": n.ID(), "tail": lines}); out.Text != want {
			t.Errorf("%d lines are %q", lines, out.Text)
		}
	}
	if _, err := try[any](t.Context(), t, env, "output_read", fields{"output": n.ID(), "cursor": 99}); err == nil || !strings.Contains(err.Error(), `cannot use cursor "99": the stream has 14 bytes so far`) {
		t.Error(err)
	}
	read := func(wait string) output.OutputReadOutput {
		return well[output.OutputReadOutput](t, env, "output_read", fields{"output": n.ID(), "cursor": 14, "wait": wait})
	}
	if out := read("1ms"); out.Text != "" || out.Ended || out.NextCursor != 14 {
		t.Errorf("%+v", out)
	}
	go func() { _, _ = n.Write([]byte("four\n")) }()
	if out := read("1m"); out.Text != "four\n" {
		t.Errorf("%+v", out)
	}
	go n.End("done")
	out := well[output.OutputReadOutput](t, env, "output_read", fields{"output": n.ID(), "cursor": 19, "wait": "1m"})
	if !out.EOF || out.State != "done" {
		t.Errorf("%+v", out)
	}
	more := env.Outputs.New("")
	errs := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := try[any](ctx, t, env, "output_read", fields{"output": more.ID(), "wait": "10m"})
		errs <- err
	}()
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := <-errs; !errors.Is(err, ctx.Err()) {
		t.Error(err)
	}
}
