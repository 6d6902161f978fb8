//go:build linux

package escape

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/wire"
)

// bombs use up what everybody shares, in a sandbox with limits.
func bombs() []row {
	const (
		unbounded = "on the host's disk, unbounded"
		killed    = "crashed (status -9 SIGKILL)"
	)
	rows := []row{
		{name: "start 300 processes more than the limit", args: []string{"bomb-processes", "{many}"}, want: "EAGAIN", unless: "EAGAIN"},
		{name: "open 2000 files", args: []string{"bomb-descriptors", "2000"}, want: "EMFILE"},
		{name: "use 400 MiB of memory", args: []string{"bomb-memory", "400"}, want: "ENOMEM|" + killed},
		{name: "write a file of 40 MiB into the workspace", args: []string{"bomb-space", "{ws}", "40"}, want: "EFBIG"},
	}
	for _, place := range []string{"{tmp}", "{home}", "/dev/shm"} {
		r := row{name: "fill " + strings.Trim(place, "{}") + " with 24 MiB", args: []string{"bomb-space", place, "24"}, want: "ENOSPC", lost: unbounded}
		if place == "/dev/shm" {
			r.lost, r.landlock = "", "EACCES"
		}
		rows = append(rows, r)
	}
	return append(rows,
		row{name: "make 4500 files in tmp", args: []string{"bomb-inodes", "{tmp}", "4500"}, want: "ENOSPC", lost: unbounded},
		row{name: "fill /run with 24 MiB", args: []string{"bomb-space", "{run}", "24"}, want: "ENOSPC", landlock: "EACCES"})
}

// spinning uses up processor time, of which the others would need some, too. It
// is bounded to one second, which a virtual machine counts roughly.
func spinning() []row {
	return []row{{name: "use the processor for 6 seconds", args: []string{"bomb-cpu", "6000"}, want: "crashed (status -9 SIGKILL)|crashed (status -24 SIGXCPU)|crashed (status 2)"}}
}

// limited bounds everything that a spec can bound without control groups.
func limited(spec policy.Spec, processes uint64) policy.Spec {
	spec.Limits = policy.Limits{
		Processes: processes, OpenFiles: 1024,
		FileSize: 32 * policy.MiB, Memory: 256 * policy.MiB,
	}
	if spec.Level != policy.LevelLandlock {
		spec.Limits.Tmp = 16 * policy.MiB
	}
	spec.AllowDegraded = []string{policy.DegradeMemory}
	return spec
}

const bombTitle = "bombs, in a sandbox with limits"

func TestGridBombs(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		limit := h.present(t) + 100
		h.lend(t)
		h.box = h.start(t, limited(h.spec(h.inside, "none"), limit))
		tmp, home := "/tmp", policy.HomePath
		if c.Level == policy.LevelLandlock {
			tmp, home = h.scratch(h.box)+"/tmp", h.scratch(h.box)+"/home"
		}
		h.box.names = append(h.box.names, "{tmp}", tmp, "{home}", home, "{run}", "/run")
		h.values = append(h.values, "{many}", fmt.Sprint(limit+300), "{tmp}", h.outside, "{home}", h.outside, "{run}", h.outside)
		h.run(t, bombTitle, bombs())
		spec := h.spec(h.inside, "none")
		spec.Limits.CPUTime = policy.Duration(time.Second)
		h.box = h.start(t, spec)
		h.run(t, bombTitle, spinning())
		healthy(t)
	})
}

// present counts the processes and threads that a limit counts beside those
// of the sandbox: at the landlock level, all of the user's.
func (h *host) present(t *testing.T) uint64 {
	t.Helper()
	if h.Level != policy.LevelLandlock {
		return 0
	}
	uid := os.Getuid()
	if h.Who == asRoot {
		uid = ordinaryID
	}
	tasks, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	for _, task := range tasks {
		var st unix.Stat_t
		if unix.Stat(task, &st) == nil && int(st.Uid) == uid {
			n++
		}
	}
	return n
}

// healthy says whether the host still starts programs, soon, and opens
// terminals.
func healthy(t *testing.T) {
	t.Helper()
	began := time.Now()
	if out, err := exec.CommandContext(t.Context(), "/bin/true").CombinedOutput(); err != nil {
		t.Errorf("the host runs no programs: %v: %s", err, out)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the host takes %v to run a program", took)
	}
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Errorf("the host has no terminals: %v", err)
		return
	}
	_ = unix.Close(fd)
}

// A fork bomb has as many processes as it may, and ends within its timeout.
func TestForkBomb(t *testing.T) {
	onLevels(t, func(t *testing.T, c column) {
		h := newHost(t, c)
		limit := h.present(t) + 100
		h.lend(t)
		spec := h.spec(h.inside, "none")
		spec.Limits.Processes = limit
		b := h.start(t, spec)
		token := h.token + "-bomb"
		ended := make(chan struct{})
		watched := make(chan int)
		go func() {
			most := 0
			for {
				select {
				case <-ended:
					watched <- most
					return
				default:
					most = max(most, len(carriers(token)))
				}
			}
		}()
		timeout := 1.0
		began := time.Now()
		res, err := b.client.Exec(t.Context(), wire.ExecRequest{
			Argv: []string{b.attacker, "fork-bomb", token}, TimeoutSeconds: &timeout,
		})
		took := time.Since(began)
		close(ended)
		most := <-watched
		if err != nil || !res.TimedOut || !res.DeathProved || res.SurvivorsKilled < 10 {
			t.Errorf("%+v, %v", res, err)
		}
		if left := carriers(token); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if took > time.Minute || most > int(limit) {
			t.Errorf("it took %v, with up to %d processes", took, most)
		}
		healthy(t)
		if res, err := b.client.Exec(t.Context(), wire.ExecRequest{Argv: []string{"/bin/true"}}); err != nil || res.ExitCode != 0 {
			t.Errorf("the next command: %+v, %v", res, err)
		}
	})
}
