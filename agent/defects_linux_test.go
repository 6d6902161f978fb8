package agent_test

import (
	"fmt"
	"testing"
)

// defect is something that is wrong with the agent that the contract was
// taken from, by the number that CONFORMANCE.md knows it by, and a test that
// such an agent fails.
type defect struct {
	number int
	name   string
	test   func(t *testing.T, b *bareAgent)
}

// What was wrong is not so any more.
func TestDefects(t *testing.T) {
	t.Parallel()
	number := 0
	for _, table := range [][]defect{defectsOfSecurity, defectsOfAvailability, defectsOfProcesses, defectsOfCorrectness} {
		for _, d := range table {
			if number++; d.number != number {
				t.Errorf("defect %d is in the place of %d", d.number, number)
			}
			t.Run(fmt.Sprintf("%02d_%s", d.number, d.name), func(t *testing.T) {
				t.Parallel()
				conform(t)
				d.test(t, bare(t))
			})
		}
	}
}
