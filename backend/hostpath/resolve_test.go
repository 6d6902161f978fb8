package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/policy"
)

// dirIn is a directory without links in its path, with directories in it.
func dirIn(t *testing.T, dirs ...string) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func linkAt(t *testing.T, text, name string) {
	t.Helper()
	if err := os.Symlink(text, name); err != nil {
		t.Fatal(err)
	}
}

// A path leads where the kernel would go, or is an error as the kernel's.
func TestFollow(t *testing.T) {
	root := dirIn(t, "a/b/c")
	if err := os.WriteFile(root+"/a/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	linkAt(t, "b/c", root+"/a/rel")
	linkAt(t, root+"/a/b", root+"/abs")
	linkAt(t, "../../abs/c/..", root+"/a/b/up")
	linkAt(t, "loop", root+"/loop")
	linkAt(t, "../nowhere/x", root+"/a/gone")
	linkAt(t, "/", root+"/top")
	for _, name := range []string{"a", "a/b/c", "a/rel", "abs/c", "a/b/up", "a/b/up/c/../..", "a/file", "top", "a/b/c/../../rel/..", "top" + root + "/a"} {
		want, err := filepath.EvalSymlinks(root + "/" + name)
		if err != nil {
			t.Fatal(name, err)
		}
		var st unix.Stat_t
		if err := unix.Stat(want, &st); err != nil {
			t.Fatal(err)
		}
		way, err := Follow(root + "/" + name)
		if err != nil || !way.Exists || way.Path != want || way.Ino != st.Ino || way.Dev != uint64(st.Dev) || way.UID != st.Uid || way.Mode != uint32(st.Mode) { //nolint:unconvert // differs between platforms
			t.Errorf("%s: %+v, %v, want %s", name, way, err, want)
		}
	}
	for name, want := range map[string]error{"loop": unix.ELOOP, "loop/x": unix.ELOOP, "a/file/x": unix.ENOTDIR, strings.Repeat("a/../", 3000): unix.ENAMETOOLONG} {
		if _, err := Follow(root + "/" + name); !errors.Is(err, want) {
			t.Errorf("%.20s: %v, want %v", name, err, want)
		}
	}
	for name, want := range map[string]string{"a/none": "/a/none", "none/x/y": "/none/x/y", "a/gone": "/nowhere/x", "a/gone/z": "/nowhere/x/z"} {
		way, err := Follow(root + "/" + name)
		if err != nil || way.Exists || way.Path != root+want {
			t.Errorf("%s: %+v, %v", name, way, err)
		}
	}
	way, err := Follow(root + "/abs/c")
	if err != nil || len(way.Links) != 1 || way.Links[0].Path != root+"/abs" || way.Links[0].Text != root+"/a/b" {
		t.Errorf("%+v, %v", way, err)
	}
	if _, err := Follow("relative"); err == nil {
		t.Error("a relative path is resolved")
	}
}

// request is for a sandbox over these directories, the workspace first.
func requestOver(state string, dirs ...string) backend.Request {
	spec := policy.Spec{Backend: policy.BackendLinux, RootFS: policy.RootHost, Workspace: policy.Workspace{Source: dirs[0], Mode: policy.ModeBind}}
	for i, d := range dirs[1:] {
		spec.Mounts = append(spec.Mounts, policy.Mount{Source: d, Target: fmt.Sprintf("/mnt/%d", i), Mode: "rw"})
	}
	return backend.Request{Spec: spec, StateDir: state}
}

func started(t *testing.T, req backend.Request) {
	t.Helper()
	mounts, err := Mounts(req, "/workspace")
	if err == nil {
		_, err = Remember(req, mounts, false)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Beside a list of its own a start goes by that of the usual place: what either says
// could be changed could be, and what one does not say was covered was not.
func TestWrittenAndUsual(t *testing.T) {
	root := dirIn(t, "app/bin", "other", "home")
	linkAt(t, "../home", root+"/other/link")
	listed := func(dir string, kept ...string) *Written {
		way, err := Follow(root + "/" + dir)
		if err != nil {
			t.Fatal(err)
		}
		return &Written{entries: []entry{{Identity: way.Identity, path: way.Path, kept: kept}}}
	}
	link, err := Follow(root + "/other/link")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := Follow(root + "/app/bin/agent")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		usual          *Written
		follows, keeps bool
	}{
		"no usual list":         {nil, true, true},
		"nothing of these":      {listed("home"), true, true},
		"the link's directory":  {listed("other"), false, true},
		"the program itself":    {listed("app", "bin/agent"), true, true},
		"the program uncovered": {listed("app"), true, false},
	} {
		w := listed("app", "bin")
		w.more = tt.usual
		if err := w.Judge(link, nil); (err == nil) != tt.follows {
			t.Errorf("%s: %v", name, err)
		}
		if _, ok := w.Keeps(agent.Dirs, agent.Path); ok != tt.keeps {
			t.Errorf("%s: kept: %v", name, ok)
		}
	}
}

// The list tells the directories apart from others of their name or inode, and
// knows them where they were moved.
func TestWritten(t *testing.T) {
	root := dirIn(t, "app", "other", "home")
	state := root + "/state"
	if List(state) != nil {
		t.Fatal("there is a list before the first start")
	}
	started(t, requestOver(state, root+"/app"))
	first, err := os.Stat(state + "/written")
	if err != nil {
		t.Fatal(err)
	}
	started(t, requestOver(state, root+"/app"))
	if again, err := os.Stat(state + "/written"); err != nil || !os.SameFile(first, again) {
		t.Errorf("a start that changes nothing has written: %v", err)
	}
	linkAt(t, "../home", root+"/app/link")
	linkAt(t, "../home", root+"/other/link")
	judge := func(name string) error {
		way, err := Follow(root + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return List(state).Judge(way, nil)
	}
	if err := judge("app/link"); err == nil || !strings.Contains(err.Error(), root+"/app was writable for them") || Hint(err) == "" {
		t.Errorf("a link in it: %v", err)
	}
	if err := judge("other/link"); err != nil {
		t.Errorf("a link elsewhere: %v", err)
	}
	if err := os.Rename(root+"/app", root+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := judge("moved/link"); err == nil {
		t.Error("it was moved, and is not known any more")
	}
	// Another directory of the same name, made after.
	if err := os.Mkdir(root+"/app", 0o755); err != nil {
		t.Fatal(err)
	}
	linkAt(t, "../home", root+"/app/link")
	if err := judge("app/link"); err != nil {
		t.Errorf("a new directory is taken for the old one: %v", err)
	}
	for _, w := range []*Written{List(state)} {
		text := w.String()
		if err := os.WriteFile(state+"/written", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadWritten(state); err != nil || got.String() != text {
			t.Errorf("%v, %q, want %q", err, got, text)
		}
	}
	for _, text := range []string{"", "paddock-written 2\n", writtenHead + "1 2 3\n", writtenHead + "1 2 3 \"/a\"", writtenHead + "1 2 3 \"a\"\n", writtenHead + "x 2 3 \"/a\"\n", writtenHead + "1 2 3 \"/a\"x\n"} {
		if err := os.WriteFile(state+"/written", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadWritten(state); err == nil {
			t.Errorf("%q is a list", text)
		}
		if err := judge("app/link"); err == nil && os.Geteuid() != 0 {
			t.Error("a damaged list is taken for an empty one")
		}
		if _, err := Remember(requestOver(state, root+"/app"), nil, false); err == nil {
			t.Errorf("a start goes on over %q", text)
		}
	}
	if err := errors.Join(os.WriteFile(state+"/written", []byte(writtenHead), 0o600), os.Chmod(state+"/written", 0o666)); err != nil {
		t.Fatal(err)
	}
	if List(state) != nil {
		t.Error("a list that others can write is believed")
	}
}

// A link of another user's is not followed, whatever the list of this one says:
// that user's sandboxes are on another.
func TestLinksOfOthers(t *testing.T) {
	root := dirIn(t, "app", "other", "home")
	state := root + "/state"
	linkAt(t, root+"/home", root+"/other/link")
	started(t, requestOver(state, root+"/app"))
	way, err := Follow(root + "/other/link")
	if err != nil {
		t.Fatal(err)
	}
	for uid, says := range map[uint32]string{0: "belongs to uid 0", uint32(os.Geteuid()): "", 54321: "belongs to uid 54321", nobody: "belongs to uid 65534"} {
		way.Links[0].UID = uid
		if err := List(state).Judge(way, nil); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Lchown(root+"/other/link", 54321, 54321); err != nil {
		t.Fatal(err)
	}
	if _, err := Mounts(requestOver(state, root+"/other/link"), "/workspace"); err == nil || !strings.Contains(err.Error(), "belongs to uid 54321") {
		t.Errorf("root follows it: %v", err)
	}
}

// A link of root's is safe in a directory of the system's that root alone can
// change, whoever follows it: elsewhere a sandbox of root's could have made it, and
// root's list is not for other users to read.
func TestLinksOfRoot(t *testing.T) {
	at := func(holder string, change func(*Link)) Link {
		l := Link{Path: filepath.Join(holder, "link"), Text: "x"}
		for d := holder; ; d = filepath.Dir(d) {
			l.Dirs = append([]Dir{{Path: d, Mode: unix.S_IFDIR | 0o755}}, l.Dirs...)
			if d == "/" {
				break
			}
		}
		if change != nil {
			change(&l)
		}
		return l
	}
	mode := func(i int, mode uint32) func(*Link) { return func(l *Link) { l.Dirs[i].Mode |= mode } }
	for name, tt := range map[string]struct {
		link Link
		safe bool
	}{
		"/home":                    {at("/", nil), true},
		"/var/run":                 {at("/var", nil), true},
		"/home/user":               {at("/home", nil), true},
		"/usr/local/go":            {at("/usr/local", nil), true},
		"a workspace of root's":    {at("/srv/app", nil), false},
		"below a system directory": {at("/usr/src/app", nil), false},
		"a directory beside":       {at("/data", nil), false},
		"a group may write":        {at("/usr/local", mode(2, 0o020)), false},
		"all may write, sticky":    {at("/var", mode(1, 0o002|unix.S_ISVTX)), false},
		"a group may write above":  {at("/usr/local", mode(1, 0o020)), false},
		"a directory of another's": {at("/opt", func(l *Link) { l.Dirs[1].UID = 1000 }), false},
		"a link of another's":      {at("/opt", func(l *Link) { l.UID = 1000 }), false},
	} {
		if tt.link.safe() != tt.safe {
			t.Errorf("%s: safe is %v", name, !tt.safe)
		}
		if os.Geteuid() == 0 && tt.link.UID == 0 {
			continue // it is the caller's own
		}
		err := (&Written{}).Judge(&Way{Path: "/x", Links: []Link{tt.link}}, nil)
		if e := (*LinkError)(nil); (err == nil) != tt.safe || err != nil && (!errors.As(err, &e) || e.Hint() == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Many directories are kept apart, and what is not there any more is forgotten
// where there are too many.
func TestWrittenIsBounded(t *testing.T) {
	root := dirIn(t, "keep")
	state := root + "/state"
	started(t, requestOver(state, root+"/keep"))
	for i := range roomy + 50 {
		dir := fmt.Sprintf("%s/d%d", root, i)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		started(t, requestOver(state, dir))
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
	}
	w := List(state)
	if len(w.entries) > roomy+1 || w.entries[0].path != root+"/keep" {
		t.Errorf("there are %d, the first %s", len(w.entries), w.entries[0].path)
	}
}

// A list of many directories that are all there is read, and one that is full says
// what makes room.
func TestWrittenIsFull(t *testing.T) {
	root := dirIn(t, "old", "new", "state")
	way, err := Follow(root + "/old")
	if err != nil {
		t.Fatal(err)
	}
	w := &Written{entries: slices.Repeat([]entry{{Identity: way.Identity, path: way.Path}}, maxListed)}
	keep := func() {
		if err := errors.Join(os.Chmod(root+"/state", 0o700), os.WriteFile(root+"/state/written", []byte(w.String()), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	req := requestOver(root+"/state", root+"/new")
	mounts, err := Mounts(req, "/workspace")
	if err != nil {
		t.Fatal(err)
	}
	var e *backend.StartError
	if _, err := Remember(req, mounts, false); !errors.As(err, &e) || !strings.Contains(e.Cause, "more directories than are listed: 65537") || !strings.HasPrefix(e.Hint, "remove directories") {
		t.Errorf("a full list: %+v", err)
	}
	w.entries[7].path += "/gone"
	keep()
	started(t, req)
	if n := len(List(root + "/state").entries); n != maxListed {
		t.Errorf("%d are listed", n)
	}
}

// A program in a workspace stays trusted for as long as each start covered it.
func TestKept(t *testing.T) {
	root := dirIn(t, "tree/bin")
	state, agent := root+"/state", root+"/tree/bin/paddock-agent"
	if err := os.WriteFile(agent, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	with := requestOver(state, root+"/tree")
	with.Agent = agent
	started(t, with)
	own := backend.OwnFile{Path: agent, What: "the agent"}
	if _, err := Trust(List(state), own); err != nil {
		t.Fatal(err)
	}
	// Rebuilt by its user, it is the same program to the list.
	if err := errors.Join(os.Remove(agent), os.WriteFile(agent, []byte("x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	started(t, with)
	if _, err := Trust(List(state), own); err != nil {
		t.Fatal(err)
	}
	started(t, requestOver(state, root+"/tree/bin")) // which covers nothing of it
	if _, err := Trust(List(state), own); err == nil || !strings.Contains(err.Error(), "could have put another in its place") {
		t.Errorf("%v", err)
	}
	started(t, with)
	if _, err := Trust(List(state), own); err == nil {
		t.Error("it is trusted again")
	}
}

// A directory in which a commit lands is one that commands could write. A program in it, and the way
// from a worktree to its repository, stay trusted if nothing lands at them.
func TestRememberCommit(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir()) // nothing is shared
	for name, c := range map[string]struct {
		landed func(string) bool
		keeps  bool
	}{
		"something else":     {func(string) bool { return false }, true},
		"the program":        {func(rel string) bool { return rel == "bin/paddock-agent" || rel == ".git" }, false},
		"nobody knows where": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := dirIn(t, "tree/bin", "home")
			state, agent := root+"/state", root+"/tree/bin/paddock-agent"
			if err := errors.Join(os.WriteFile(agent, nil, 0o755), os.WriteFile(root+"/tree/.git", nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			linkAt(t, "../home", root+"/tree/link")
			way, err := Follow(root + "/tree/link")
			if err != nil {
				t.Fatal(err)
			}
			req := requestOver(state, root+"/tree")
			req.Agent = agent
			if err := RememberCommit(req, false, Committed{Source: root + "/tree", Landed: c.landed}); err != nil {
				t.Fatal(err)
			}
			list := List(state)
			if err := list.Judge(way, nil); err == nil {
				t.Error("a link that may have landed is followed")
			}
			for _, file := range []string{agent, root + "/tree/.git"} {
				way, err := Follow(file)
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := list.Keeps(way.Dirs, file); ok != c.keeps {
					t.Errorf("%s is kept: %t", file, ok)
				}
			}
		})
	}
	root := dirIn(t, "tree")
	if err := os.WriteFile(root+"/state", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var e *backend.StartError
	if err := RememberCommit(requestOver(root+"/state", root+"/tree"), false, Committed{Source: root + "/tree"}); !errors.As(err, &e) || e.Object != root+"/state/written" || e.Hint == "" {
		t.Errorf("a list that cannot be written: %+v", err)
	}
}

// What older versions have committed is listed once, and again only if that failed.
func TestRememberCommitted(t *testing.T) {
	root := dirIn(t, "tree", "home", "state")
	state := root + "/state"
	if err := os.Chmod(state, 0o700); err != nil {
		t.Fatal(err)
	}
	calls := 0
	remember := func(err error) error {
		s := NewSeen(List(state))
		return RememberCommitted(state, s, false, func() ([]Committed, []backend.OwnFile, error) {
			calls++
			return []Committed{{Source: root + "/gone"}, {Source: root + "/tree"}}, nil, err
		})
	}
	if err := remember(unix.EACCES); err == nil || calls != 1 {
		t.Errorf("layers that cannot be read: %v, %d calls", err, calls)
	}
	if err := errors.Join(os.Symlink(root, state+"/written"), remember(nil)); err == nil {
		t.Error("a list that cannot be written is no error")
	}
	if err := errors.Join(os.Remove(state+"/written"), remember(nil), remember(nil)); err != nil || calls != 3 {
		t.Errorf("%v, %d calls", err, calls)
	}
	if list := List(state); list.below(root) != root+"/tree" || len(list.entries) != 1 {
		t.Errorf("it lists %v", list)
	}
	if err := RememberCommitted(root+"/none", NewSeen(nil), false, nil); err != nil {
		t.Errorf("no state directory: %v", err)
	}
	if _, err := os.Lstat(root + "/none"); err == nil {
		t.Error("a state directory was made")
	}
}

// A file that was mounted writable by itself is not believed, until it is made anew;
// one that was covered there is.
func TestWrittenFile(t *testing.T) {
	root := dirIn(t, "ws", "bin")
	state := root + "/state"
	for _, f := range []string{"agent", "covered"} {
		if err := os.WriteFile(root+"/bin/"+f, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	req := requestOver(state, root+"/ws", root+"/bin/agent", root+"/bin/covered")
	req.Own = []backend.OwnFile{{Path: root + "/bin/covered", What: "the agent"}}
	started(t, req)
	own := backend.OwnFile{Path: root + "/bin/agent", What: "the agent"}
	if _, err := Trust(List(state), own); err == nil || !strings.Contains(err.Error(), "could have written it") || Hint(err) == "" {
		t.Errorf("a file that was writable: %v", err)
	}
	if err := os.Rename(own.Path, root+"/moved"); err != nil {
		t.Fatal(err)
	}
	if _, err := Trust(List(state), backend.OwnFile{Path: root + "/moved", What: "the agent"}); err == nil {
		t.Error("it was moved, and is trusted")
	}
	if _, err := Trust(List(state), req.Own[0]); err != nil {
		t.Errorf("one that was covered: %v", err)
	}
	if err := os.WriteFile(own.Path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Trust(List(state), own); err != nil {
		t.Errorf("one that was made anew: %v", err)
	}
}

// What is absent in a writable mount, and what is replaced when it changes,
// cannot be covered.
func TestCovers(t *testing.T) {
	root := dirIn(t, "ws", "ro")
	for _, f := range []string{"ws/spec", "ws/key", "ro/key"} {
		if err := os.WriteFile(filepath.Join(root, f), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	req := requestOver(root+"/state", root+"/ws")
	req.Spec.Mounts = []policy.Mount{{Source: root + "/ro", Target: "/mnt/x", Mode: "ro"}}
	for _, tt := range []struct {
		own    backend.OwnFile
		covers []string
		says   string
	}{
		{backend.OwnFile{Path: root + "/ws/spec", What: "the spec"}, []string{root + "/ws/spec"}, ""},
		{backend.OwnFile{Path: root + "/ws/key", What: "the key", Hidden: true}, []string{root + "/ws/key"}, ""},
		{backend.OwnFile{Path: root + "/ro/key", What: "the key", Hidden: true}, []string{root + "/ro/key"}, ""},
		{backend.OwnFile{Path: root + "/ro/key", What: "the certificate"}, nil, ""},
		{backend.OwnFile{Path: root + "/ro/none", What: "the spec"}, nil, ""},
		{backend.OwnFile{Path: root + "/ws/none", What: "the spec", Field: "--spec"}, nil, "(the spec, --spec), which does not exist yet"},
		{backend.OwnFile{Path: root + "/ws/none/deep", What: "the spec"}, nil, "which does not exist yet"},
		{backend.OwnFile{Path: root + "/ws/none", What: "a program", Spare: true}, nil, ""},
		{backend.OwnFile{Path: root + "/ws/spec", What: "privileges", Replaced: true}, nil, "could put another file in the place of"},
		{backend.OwnFile{Path: root + "/ws/dir", What: "the state", Hidden: true, Dir: true}, []string{root + "/ws/dir"}, ""},
		{backend.OwnFile{Path: root + "/ws", What: "the state", Hidden: true}, nil, "it is the state"},
	} {
		req.Own = []backend.OwnFile{tt.own}
		mounts, err := Mounts(req, "/workspace")
		if err != nil {
			t.Fatal(err)
		}
		covers, err := Covers(req, mounts)
		var got []string
		for _, c := range covers {
			got = append(got, c.Path)
		}
		if (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) || err == nil && !slices.Equal(got, tt.covers) {
			t.Errorf("%+v: %q, %v", tt.own, got, err)
		}
	}
}

// A file that is named is read where a regular one is, over no link of commands.
func TestReadNamed(t *testing.T) {
	root := dirIn(t, "app", "mine")
	state := root + "/state"
	started(t, requestOver(state, root+"/app"))
	if err := errors.Join(os.WriteFile(root+"/file", []byte("text"), 0o600), unix.Mkfifo(root+"/fifo", 0o600),
		os.WriteFile(root+"/sparse", nil, 0o600), os.Truncate(root+"/sparse", 10<<30)); err != nil {
		t.Fatal(err)
	}
	linkAt(t, "../file", root+"/app/link")
	linkAt(t, "../file", root+"/mine/link")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, want := range map[string]error{"file": nil, "mine/link": nil, "fifo": ErrNotRegular, "app": ErrNotRegular, "sparse": ErrTooLarge, "none": fs.ErrNotExist} {
		text, err := ReadNamed(ctx, state, root+"/"+name, 1<<20)
		if !errors.Is(err, want) || want == nil && string(text) != "text" {
			t.Errorf("%s: %q, %v, want %v", name, text, err, want)
		}
	}
	var planted *LinkError
	if _, err := ReadNamed(ctx, state, root+"/app/link", 1<<20); !errors.As(err, &planted) || planted.Leads != root+"/file" {
		t.Errorf("a planted link: %v", err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	name := fmt.Sprintf("/dev/fd/%d", r.Fd())
	soon, stop := context.WithCancel(ctx)
	stop()
	if _, err := ReadNamed(soon, state, name, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a pipe: %v", err)
	}
}
