package agent_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// names lists what is in a directory.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// Nothing is kept of a shell that was closed, by this agent or by its end.
func TestShellRecordsGo(t *testing.T) {
	b := bare(t)
	for i := range 40 {
		id := "s" + strconv.Itoa(i)
		each(t, b, []call{
			{request: open(id, ""), want: `{}`},
			{request: `{"action":"resize_shell","shell_id":"` + id + `","cols":80,"rows":24}`, want: `{}`},
		})
		if found := names(t, b.shells); len(found) != 1 || found[0] != id+".json" {
			t.Errorf("of an open shell there is %q", found)
		}
		if i%2 == 0 { // one that ends at once, and is closed while that is noted
			each(t, b, []call{{request: `{"action":"signal_shell","shell_id":"` + id + `","signal":"KILL"}`, want: `{}`}})
		}
		b.closeShell(t, id)
		if found := names(t, b.shells); len(found) > 0 {
			t.Fatalf("of a closed shell there is %q", found)
		}
	}
}

func TestShellRecordsOfTheKilled(t *testing.T) {
	b := bare(t)
	each(t, b, []call{{request: open("a", ""), want: `{}`}, {request: open("b", ""), want: `{}`}})
	_ = syscall.Kill(b.pid, syscall.SIGKILL)
	<-b.exited
	kept := map[string]string{"mine.json": `{"shell_id":"mine"}`, "other.json": `{"shell_id":"x","state":"running","cols":1,"rows":1}`,
		"-.json": "{}", "notes.txt": "x", "empty.json": ""}
	for name, text := range kept {
		put(t, text, b.shells, name)
	}
	put(t, "half", b.shells, ".new-ABC")
	if err := os.Symlink("notes.txt", filepath.Join(b.shells, "link.json")); err != nil {
		t.Fatal(err)
	}
	bare(t, "--shell-root", b.shells)
	if found := names(t, b.shells); len(found) != len(kept)+1 {
		t.Errorf("there is %q", found)
	}
	for name, text := range kept {
		if got, err := os.ReadFile(filepath.Join(b.shells, name)); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
