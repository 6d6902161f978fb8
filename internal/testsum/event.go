package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// event is one line of "go test -json", as "go doc test2json" and "go help
// buildjson" describe it.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// readEvents feeds every event of r to s. A line that is no event is shown as
// it came, because it may be the only word about what went wrong.
func readEvents(r io.Reader, s *summary) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				s.take(e)
			} else {
				s.show(string(line))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the output of go test: %w", err)
		}
	}
}
