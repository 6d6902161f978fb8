package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Archives that come at once into one destination, which is not there yet, do
// not hinder each other.
func TestExtractAtOnce(t *testing.T) {
	t.Parallel()
	b := bare(t)
	const rounds, clients, files = 40, 8, 20
	for round := range rounds {
		dest := fmt.Sprint("new", round)
		var wg sync.WaitGroup
		for client := range clients {
			var members []member
			for i := range files {
				members = append(members, file(fmt.Sprintf("d/%d-%d", client, i), "x"), file(fmt.Sprintf("d/%d", i), "y"))
			}
			body := archive(members...)
			wg.Go(func() {
				answer := answerOf(t, b.exchange(t, append([]byte(extraction(dest, body)+"\n"), body...)))
				if answer["error"] != nil {
					t.Errorf("round %d: %v", round, answer)
				}
			})
		}
		wg.Wait()
		if found, err := os.ReadDir(filepath.Join(b.workspace, dest, "d")); err != nil || len(found) != files*(clients+1) {
			t.Fatalf("round %d: there are %d files, %v", round, len(found), err)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(b.workspace, ".paddock*")); len(found) > 0 {
		t.Errorf("%q are left", found)
	}
}

// Whoever archives the directory itself is told what to do instead.
func TestExtractOfDirectoryItself(t *testing.T) {
	t.Parallel()
	b := bare(t)
	body := archive(dir("./"), file("./a", "x"))
	answer := answerOf(t, b.exchange(t, append([]byte(extraction("d", body)+"\n"), body...)))
	if hint, _ := answer["hint"].(string); answer["error"] != "unsafe archive member path: ." || !strings.Contains(hint, "tar -c *") {
		t.Errorf("got %v", answer)
	}
	absent(t, b.workspace, "d")
}
