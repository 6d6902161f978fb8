// Package schedule says when notes are due.
package schedule

import (
	"time"

	"github.com/robfig/cron/v3"
)

// Next returns the next times of a line of cron's after a time.
func Next(line string, after time.Time, n int) (times []time.Time, err error) {
	s, err := cron.ParseStandard(line)
	if err != nil {
		return nil, err
	}
	for range n {
		after = s.Next(after)
		times = append(times, after)
	}
	return times, nil
}
