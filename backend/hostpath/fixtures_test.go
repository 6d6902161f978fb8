package hostpath

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/paddock-dev/paddock/backend"
)

// A list of what sandboxes could write that an earlier version wrote still counts, and is written on.
func TestFixtures(t *testing.T) {
	text, err := os.ReadFile("testdata/679cc6da/written")
	if err != nil {
		t.Fatal(err)
	}
	root := dirIn(t, "ws", "odd \"name\n", "bin", "home", "state", "late")
	for _, f := range []string{"agent", "covered", "other"} {
		if err := os.WriteFile(root+"/bin/"+f, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var now strings.Builder // with the numbers that the directories have here
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(line, " ", 4); len(f) == 4 {
			quoted, err := strconv.QuotedPrefix(f[3])
			if err != nil {
				t.Fatal(err)
			}
			at, _ := strconv.Unquote(quoted)
			at = root + strings.TrimPrefix(at, "/tmp/fixture-written")
			way, err := Follow(at)
			if err != nil || !way.Exists {
				t.Fatal(at, err)
			}
			line = fmt.Sprintf("%d %d %d %s%s", way.Dev, way.Ino, way.Born, strconv.Quote(at), strings.TrimPrefix(f[3], quoted))
		}
		now.WriteString(line)
	}
	state := root + "/state"
	if err := os.WriteFile(filepath.Join(state, writtenName), []byte(now.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	judge := func(name string) error {
		way, err := Follow(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return List(state).Judge(way, nil)
	}
	for _, again := range []bool{false, true} {
		for _, dir := range []string{"ws", "odd \"name\n", "bin"} {
			if !again {
				linkAt(t, root+"/home", root+"/"+dir+"/link")
			}
			if judge(dir+"/link") == nil {
				t.Errorf("again %v: a link in %q is followed", again, dir)
			}
		}
		for name, trusted := range map[string]bool{"agent": false, "other": false, "covered": true} {
			if _, err := Trust(List(state), backend.OwnFile{Path: root + "/bin/" + name, What: "the agent"}); (err == nil) != trusted {
				t.Errorf("again %v: %s: %v", again, name, err)
			}
		}
		started(t, requestOver(state, root+"/late"))
	}
}
