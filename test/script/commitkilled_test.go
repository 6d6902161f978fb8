package script

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/internal/testkit"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// A commit that is killed at any instant leaves the directory as it was or as it was to be, once the
// next command has opened the layer, and nothing else in it; and it can be done again.
func TestCommitKilled(t *testing.T) {
	t.Parallel()
	boxtest.RequireWalls(t)
	look := func(ws string) string {
		out, err := exec.Command("sh", "-euc", `cd "$0"; find . -mindepth 1 -printf '%y %p\n' | sort; find . -type f | sort | xargs -r cat`, ws).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	old, landed := 0, 0
	for i := range testkit.Rounds(30, 10) { // layer.TestCommitCrash ends a commit at each of its steps
		ws := t.TempDir()
		for n := range 40 {
			dir := filepath.Join(ws, fmt.Sprintf("d%d", n%7))
			err := os.MkdirAll(dir, 0o755)
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d", n)), []byte("old\n"), 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		before := look(ws)
		time.Sleep(30 * time.Millisecond)
		const change = `for f in d1/* d2/* d3/*; do echo new >> $f; done; rm -r d4; mv d5 moved; echo x > moved/x; mkdir -p a/b; echo y > a/b/c; rm d6/*; ln -s a points; find . -mindepth 1 -printf '%y %p\n' | sort; find . -type f | sort | xargs -r cat`
		want, err := paddockCommand(t, "try", "-q", "-w", ws, "--", "sh", "-euc", change).Output()
		if err != nil {
			t.Fatal(err)
		}
		id := layerOf(t, ws)
		commit := paddockCommand(t, "commit", id)
		if err := commit.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
		_ = commit.Process.Kill()
		_ = commit.Wait()
		if id = layerOf(t, ws); id != "" { // else it was done
			if out, err := paddockCommand(t, "diff", "-q", "--name-status", id).CombinedOutput(); err != nil && !strings.Contains(string(out), "no such layer") {
				t.Fatalf("round %d: %v: %s", i, err, out)
			}
		}
		switch now := look(ws); now {
		case before:
			old++
		case string(want):
			landed++
		default:
			t.Fatalf("round %d: the directory is\n%s\nwas\n%s\nand was to be\n%s", i, now, before, want)
		}
		if id = layerOf(t, ws); id != "" {
			if out, err := paddockCommand(t, "commit", id).CombinedOutput(); err != nil {
				t.Fatalf("round %d: %v: %s", i, err, out)
			}
		}
		if now := look(ws); now != string(want) {
			t.Fatalf("round %d: at the end the directory is\n%s\nwant\n%s", i, now, want)
		}
		if id := layerOf(t, ws); id != "" {
			t.Fatalf("round %d: layer %s is left", i, id)
		}
	}
	t.Logf("%d times it was as before, %d times as it was to be", old, landed)
}
