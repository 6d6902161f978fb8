package op

import (
	"fmt"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/policy"
)

// ObservedSpec returns what commands have reached as the rules of a spec, one a line and
// commented out: what was asked for is not what is needed. It has no end of line.
func ObservedSpec(found []paddock.Observed, lost uint64) string {
	lines := []string{"# network:", "#   allow:"}
	for _, o := range found {
		counts := text.Count(o.Connections, "connection")
		lines = append(lines, fmt.Sprintf("#     - {host: %s, ports: [%d]}  # %s, %s sent, %s received", text.Escape(o.Host), o.Port, counts, policy.Size(o.Sent), policy.Size(o.Received)))
	}
	if len(found) == 0 {
		lines = append(lines[:0], "# nothing was reached")
	}
	if lost > 0 {
		lines = append(lines, fmt.Sprintf("# %d older records are not kept any more, and not counted", lost))
	}
	return strings.Join(lines, "\n")
}
