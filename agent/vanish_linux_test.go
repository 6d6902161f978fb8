package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/paddock-dev/paddock/wire"
)

// Wherever a client vanishes, its command does too, and the agent keeps
// nothing of either.
func TestVanishingClients(t *testing.T) {
	b := start(t)
	line := func(q wire.ExecRequest) string {
		q.Action = "exec"
		text, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	runs := func(t *testing.T, mark string) {
		eventually(t, "the command runs", func() bool { return len(carrying(mark)) > 0 })
	}
	tree := `(setsid "$0" wait "$1" &); "$0" wait "$1"`
	tests := map[string]func(t *testing.T, r *raw, mark string){
		"before the request": func(*testing.T, *raw, string) {},
		"within the line": func(t *testing.T, r *raw, mark string) {
			q := line(wire.ExecRequest{Argv: []string{helper, "wait", mark}})
			r.write(q[:len(q)/2])
		},
		"right after the line": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{helper, "wait", mark}}))
		},
		"right after the line of a stream": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{helper, "wait", mark}, Stream: true}))
		},
		"while it runs": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"sh", "-c", tree, helper, mark}}))
			runs(t, mark)
		},
		"half closed, while it runs": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"sh", "-c", tree, helper, mark}}))
			_ = r.conn.CloseWrite()
			runs(t, mark)
		},
		"with more sent, while it runs": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"sh", "-c", tree, helper, mark}}) + "\n{}")
			runs(t, mark)
		},
		"while it prints": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"sh", "-c", `yes "$0"`, mark}}))
			runs(t, mark)
		},
		"while it streams": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"sh", "-c", `(setsid "$0" wait "$1" &); yes "$1"`, helper, mark}, Stream: true}))
			runs(t, mark)
			if _, err := r.br.Discard(1 << 20); err != nil {
				t.Error(err)
			}
		},
		"with output unread": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"sh", "-c", `yes "$0"`, mark}, Stream: true}))
			runs(t, mark)
		},
		"within a frame": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"cat", "/dev/null", "-", mark}, Stream: true}))
			r.answer(new(wire.ExecStarted))
			r.write("\x00\x00\x00\x00\x00\x00\xff")
		},
		"with input that nobody reads": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{helper, "wait", mark}, Stream: true}))
			r.answer(new(wire.ExecStarted))
			_ = wire.NewFrameWriter(r.conn).WriteFrame(wire.StreamStdin, make([]byte, wire.StdinWindow))
		},
		"with a terminal": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"sh", "-c", tree, helper, mark}, Stream: true, TTY: &wire.TTY{Rows: 3, Cols: 4}}))
			runs(t, mark)
		},
		"before the answer is read": func(t *testing.T, r *raw, mark string) {
			r.write(line(wire.ExecRequest{Argv: []string{"sh", "-c", "head -c 900000 /dev/zero", mark}}))
			if _, err := r.br.Peek(1); err != nil {
				t.Error(err)
			}
		},
	}
	for name, vanish := range tests {
		t.Run(name, func(t *testing.T) {
			b.leaksNothing(func() {
				mark := newMark()
				r := b.raw()
				r.t = t
				vanish(t, r, mark)
				r.conn.Close()
				eventually(t, "the command's tree is dead", func() bool { return len(carrying(mark)) == 0 })
			})
		})
	}
	if n := b.goroutines(); n > 20 {
		t.Errorf("%d goroutines are left", n)
	}
}
