package agent

import (
	"os"
	"strconv"
)

// expendableScore is added to how much memory a process has, in thousandths of
// what there is, where the kernel must end one for want of memory
// (proc_pid_oom_score_adj(5)).
const expendableScore = "500"

// expend makes the kernel end a command, and whatever that starts, before the
// agent, where both share one bound of memory. Without it commands could end
// the agent, and so the sandbox, by using up what both may have. It needs no
// right; where it fails, as with a score that is higher already, nothing is
// worse than before. It is set once the program runs: until then both share
// what it would be set for.
func (s *spawner) expend(p *process) {
	if s.expendable {
		_ = os.WriteFile("/proc/"+strconv.Itoa(p.pid)+"/oom_score_adj", []byte(expendableScore), 0)
	}
}
