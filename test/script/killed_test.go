package script

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/confine"
	"github.com/paddock-dev/paddock/internal/testkit/boxtest"
)

// However early paddock is killed, and whatever else starts meanwhile, nothing
// of its sandbox stays: no process of the command, no agent, no child on its way.
func TestKilledWhileItStarts(t *testing.T) {
	boxtest.RequireWalls(t)
	levels := map[string][]string{"full": nil}
	if confine.LandlockABI() >= confine.LandlockScopesABI {
		levels["landlock"] = []string{"--level", "landlock", "--allow-degraded", "identity"}
	}
	for level, flags := range levels {
		t.Run(level, func(t *testing.T) {
			dir := t.TempDir()
			mark := newMark()
			for range 30 {
				args := append([]string{"run", "-q", "-e", "MARK=" + mark}, flags...)
				args = append(args, "--", "sh", "-c", "(setsid sleep 1000 "+mark+" &); (sleep 1000 "+mark+" &); sleep 1000 "+mark)
				cmd := exec.CommandContext(context.Background(), filepath.Join(binDir, "paddock"), args...)
				cmd.Dir = dir
				cmd.Env = append(os.Environ(), "PADDOCK_STATE_DIR="+stateDir)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(rand.N(60 * time.Millisecond)) // this is what is tried
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
			}
			awaitMark(t, mark, false)
		})
	}
}
