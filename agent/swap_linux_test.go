package agent_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// swapTime is how long each action is tried at least.
const swapTime = 300 * time.Millisecond

// onlyOutside is what files outside of the workspace say and are called.
const onlyOutside = "only-outside"

// swapped is a directory p of a workspace, in which d is by turns a directory
// and a link that leads outside.
type swapped struct {
	workspace, outside string
}

func (s *swapped) in(names ...string) string {
	return filepath.Join(append([]string{s.workspace, "p"}, names...)...)
}

// set makes everything, or what has been removed of it. Where one of the two is
// missing, so that nothing is exchanged, the other may be of the kind that the
// missing one is about to be: it makes way.
func (s *swapped) set(t *testing.T) {
	t.Helper()
	if typeAt(s.in("d")) == 0 && typeAt(s.in("l")) == os.ModeDir {
		_ = os.RemoveAll(s.in("l"))
	}
	if typeAt(s.in("l")) == 0 && typeAt(s.in("d")) == os.ModeSymlink {
		_ = os.Remove(s.in("d"))
	}
	for _, dir := range []string{s.outside, filepath.Join(s.outside, "tree"), s.in("d")} {
		if err := os.MkdirAll(dir, 0o755); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"file", onlyOutside, "tree/leaf"} {
		put(t, onlyOutside, s.outside, file)
	}
	if err := os.Symlink(s.outside, s.in("l")); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
}

// typeAt is os.ModeDir, os.ModeSymlink, or 0 where there is nothing.
func typeAt(path string) os.FileMode {
	st, err := os.Lstat(path)
	if err != nil {
		return 0
	}
	return st.Mode().Type()
}

// swap exchanges d and l until stop is closed.
func (s *swapped) swap(stop <-chan struct{}) {
	d, l := s.in("d"), s.in("l")
	for {
		select {
		case <-stop:
			return
		default:
			_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, l, unix.RENAME_EXCHANGE)
		}
	}
}

// escape is a request that goes through d, and how to see that it came out.
type escape struct {
	request string
	body    string
	// said is what an answer must not have, taken what must not go from
	// outside. made says that NEW, another name each time, must not come to
	// be there.
	said, taken string
	made        bool
}

var escapes = map[string]escape{
	"read_workspace_file":         {request: `"path":"p/d/file"`, said: "b25seS1vdXRzaWRl"},
	"read_file":                   {request: `"path":"p/d/file"`, said: onlyOutside},
	"list_workspace":              {request: `"path":"p/d"`, said: onlyOutside},
	"list_workspace all":          {request: `"path":".","recursive":true`, said: onlyOutside},
	"search_files":                {request: `"path":"p/d","pattern":"outside"`, said: onlyOutside},
	"search_files all":            {request: `"path":".","pattern":"outside"`, said: onlyOutside},
	"stat":                        {request: `"path":"p/d/only-outside"`, said: `"mode"`},
	"write_workspace_file":        {request: `"path":"p/d/NEW","text":"x"`, made: true},
	"write_file":                  {request: `"path":"p/d/NEW","content_size":1`, body: "x", made: true},
	"mkdir":                       {request: `"path":"p/d/NEW"`, made: true},
	"move out":                    {request: `"path":"p/mine","target":"p/d/NEW"`, made: true},
	"move in":                     {request: `"path":"p/d/file","target":"p/got","replace":true`, taken: "file"},
	"delete_workspace_path":       {request: `"path":"p/d/file"`, taken: "file"},
	"delete_workspace_path below": {request: `"path":"p/d/tree","recursive":true`, taken: "tree/leaf"},
	"delete_workspace_path above": {request: `"path":"p","recursive":true`, taken: "file"},
}

// through makes a request again and again while d is swapped, until it has
// come out or the time is over. It reports whether it did, and after how long.
func (e escape) through(t *testing.T, s *swapped, action string, ask func(request string) string, most time.Duration) (out bool, took time.Duration) {
	t.Helper()
	s.set(t)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() { s.swap(stop) })
	defer swapping.Wait()
	defer close(stop)
	name, _, _ := strings.Cut(action, " ")
	there := func(name string) bool {
		_, err := os.Lstat(filepath.Join(s.outside, name))
		return err == nil
	}
	start := time.Now()
	for i := 0; time.Since(start) < most; i++ {
		s.set(t)
		put(t, "x", s.in("mine"))
		made := strings.ReplaceAll(action, " ", "-") + strconv.Itoa(i)
		answer := ask(`{"action":"` + name + `",` + strings.ReplaceAll(e.request, "NEW", made) + "}\n" + e.body)
		if e.said != "" && strings.Contains(answer, e.said) || e.made && there(made) || e.taken != "" && !there(e.taken) {
			return true, time.Since(start)
		}
	}
	return false, time.Since(start)
}

func newSwapped(workspace string) *swapped {
	return &swapped{workspace: workspace, outside: filepath.Join(filepath.Dir(workspace), "outside")}
}

// Nothing outside is touched or told while directories become links. That the
// test can fail is shown first, for each action, by what checks the text of a
// path and then uses it; the agent is tried for several times as long as it
// took to catch that, however busy the machine is.
func TestSwappedDirectoriesLeadNowhere(t *testing.T) {
	b := bare(t)
	workspace := filepath.Join(t.TempDir(), "workspace")
	for action, e := range escapes {
		t.Run(action, func(t *testing.T) {
			n := &naive{workspace: workspace, linger: time.Now().Add(2 * time.Second)}
			caught, took := e.through(t, newSwapped(n.workspace), action, n.serve, patience)
			if !caught {
				t.Fatalf("checked texts were not caught in %v", took)
			}
			ask := func(request string) string { return string(b.raw(t, []byte(request))) }
			if out, after := e.through(t, newSwapped(b.workspace), action, ask, max(swapTime, 3*took)); out {
				t.Errorf("it came out after %v", after)
			}
		})
	}
}

// naive serves file actions as one should not: it looks whether a parent is a
// link, and then gives the path to the kernel as a text.
type naive struct {
	workspace string
	linger    time.Time // from then on there is time between the two, for a busy machine
}

func (n *naive) serve(request string) string {
	line, body, _ := strings.Cut(request, "\n")
	var q struct{ Action, Path, Target, Text string }
	if err := json.Unmarshal([]byte(line), &q); err != nil {
		return err.Error()
	}
	path := filepath.Join(n.workspace, q.Path)
	if !n.checked(path) || !n.checked(filepath.Join(n.workspace, q.Target)) {
		return "a parent is a symbolic link"
	}
	switch q.Action {
	case "read_workspace_file", "read_file":
		content, _ := os.ReadFile(path)
		answer, _ := json.Marshal(map[string]any{"content_b64": content})
		return string(answer) + string(content)
	case "list_workspace", "search_files":
		return n.list(path)
	case "stat":
		if _, err := os.Lstat(path); err == nil {
			return `{"mode":0}`
		}
	case "write_workspace_file", "write_file":
		_ = os.WriteFile(path, []byte(q.Text+body), 0o644)
	case "mkdir":
		_ = os.Mkdir(path, 0o755)
	case "move":
		_ = os.Rename(path, filepath.Join(n.workspace, q.Target))
	case "delete_workspace_path":
		n.remove(path)
	}
	return ""
}

// checked says whether no parent of a path, nor itself, is a link.
func (n *naive) checked(path string) bool {
	for ; len(path) > len(n.workspace); path = filepath.Dir(path) {
		if st, err := os.Lstat(path); err == nil && st.Mode()&os.ModeSymlink != 0 {
			return false
		}
	}
	if time.Now().After(n.linger) {
		time.Sleep(time.Millisecond)
	}
	return true
}

func (n *naive) list(path string) string {
	var all strings.Builder
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		child := filepath.Join(path, e.Name())
		all.WriteString(child + "\n")
		if n.checked(child) {
			all.WriteString(n.list(child))
		}
	}
	return all.String()
}

func (n *naive) remove(path string) {
	if n.checked(path) {
		entries, _ := os.ReadDir(path)
		for _, e := range entries {
			n.remove(filepath.Join(path, e.Name()))
		}
	}
	_ = os.Remove(path)
}

// A shell and a service begin in the directory that was found, not in what
// has taken its name since.
func TestSwappedWorkingDirectories(t *testing.T) {
	b := bare(t)
	s := &swapped{workspace: b.workspace, outside: filepath.Join(filepath.Dir(b.workspace), "outside")}
	s.set(t)
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() { s.swap(stop) })
	defer swapping.Wait()
	defer close(stop)
	inside := s.in()
	for kind, ask := range map[string]struct{ open, close string }{
		"shell":   {open("s", `,"cwd":"p/d"`), `{"action":"close_shell","shell_id":"s"}`},
		"service": {service("s", "exec sleep 1000", `,"cwd":"p/d"`), aboutService("stop", "s")},
		"probe":   {service("s", "exec sleep 1000", `,"cwd":"p/d","ready_timeout_seconds":20,"ready_interval_ms":1,"readiness":{"type":"command","command":"test ! -e `+onlyOutside+`"}`), aboutService("stop", "s")},
	} {
		for found := 0; found < 15; {
			answer := answerOf(t, b.exchange(t, []byte(ask.open+"\n")))
			if answer["error"] != nil {
				continue // it was a link
			}
			found++
			dir, err := os.Readlink("/proc/" + strconv.Itoa(int(b.runs(t)[0]["pid"].(float64))) + "/cwd")
			if err != nil || !strings.HasPrefix(dir, inside+"/") || answer["state"] != "running" {
				t.Errorf("a %s began in %q, %v: %v", kind, dir, err, answer)
			}
			b.exchange(t, []byte(ask.close+"\n"))
		}
	}
}
