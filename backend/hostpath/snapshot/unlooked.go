package snapshot

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/paddock-dev/paddock/backend/hostpath"
)

// unlooked says what one of the two looks did not see. A directory that cannot
// be read is told each time: it may be entered, and hide what earlier commands left; so
// is one that the commands have opened.
func (s *Snapshot) unlooked(now *Snapshot) []string {
	var list []string
	for _, look := range []*Snapshot{s, now} {
		if look.depth > 0 {
			when := "before"
			if look == now {
				when = "after"
			}
			list = append(list, fmt.Sprintf("looked at %d entries %s the commands; more were not looked at: %s", look.seen, when, look.why))
		}
	}
	unseen := map[string]string{}
	maps.Copy(unseen, s.unseen)
	maps.Copy(unseen, now.unseen)
	told := map[string]bool{} // with all below
	for _, path := range slices.Sorted(maps.Keys(unseen)) {
		text := "cannot look into %s: %s"
		if _, still := now.unseen[path]; !still {
			if _, err := os.Lstat(path); err != nil {
				continue // it is gone
			}
			text = "could not look into %s before the commands: %s"
		}
		if hostpath.UnderAny(path, told) {
			continue
		}
		if len(list) == maxUnseen {
			return append(list, "and more")
		}
		told[path] = true
		list = append(list, fmt.Sprintf(text, strconv.Quote(path), unseen[path]))
	}
	return list
}
