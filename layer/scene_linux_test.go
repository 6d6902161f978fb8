package layer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock/layer/delta"
	"github.com/paddock-dev/paddock/obeyed"
)

// scene is a source, and what is done with it: lines of a small language, so that it can be made
// at random, made smaller, printed, and written by hand.
//
// A line of files is a path and a content: "->x" is a link, "*x" a program; a path that ends with
// "/" is a directory. {SOURCE} is the source's path, and {OUT} that of a directory beside it.
//
// Steps of commands work in an overlay over the source; "host" before one has it work in the
// source itself:
//
//	write P C, exec P C, mkdir P, rm P, mv A B, cp A B, ln P TARGET, chmod P MODE
//
// "commit [-skip|-overwrite] [-accept P]… [P…]" commits and checks; "-half N" commits about half
// of the changes, and "-some N" accepts about a fourth of them. "layer" begins another layer.
type scene struct {
	source, outside      []string
	homes, named, search []string
	steps                []string
	names                bool // commits use names that were read before, as the product does
}

func (s scene) String() string {
	var b strings.Builder
	for _, part := range []struct {
		name string
		list []string
	}{{"source", s.source}, {"outside", s.outside}, {"homes", s.homes}, {"named", s.named}, {"search", s.search}, {"steps", s.steps}} {
		if len(part.list) > 0 {
			fmt.Fprintf(&b, "\t%s: []string{%s},\n", part.name, strings.Join(mapped(part.list, strconv.Quote), ", "))
		}
	}
	if s.names {
		b.WriteString("\tnames: true,\n")
	}
	return b.String()
}

func mapped(list []string, f func(string) string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = f(s)
	}
	return out
}

// played is what became of a scene.
type played struct {
	violations []string // of the properties, with the step
	commits    []committed
	source     map[string]string // at the end
}

// committed is one commit of a scene.
type committed struct {
	step    string
	changes []Change
	result  Result
	err     error
}

func (c *committed) held(p string) bool {
	return slices.ContainsFunc(c.result.Held, func(f Finding) bool { return f.Path == p })
}

func (c *committed) landed(p string) bool {
	return slices.ContainsFunc(c.result.Landed, func(ch Change) bool { return ch.Path == p })
}

// errNoOverlay says that no overlay can be had.
var errNoOverlay = errors.New("no overlay can be had here")

// stage plays scenes in a directory of its own.
type stage struct {
	dir    string
	inside map[Marks]*insider
}

// newStage returns a stage on a file system in memory, where there is one with what overlays need.
func newStage(t testing.TB) *stage {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "layer") //nolint:usetesting // in memory
	if err == nil {
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		err = unix.Setxattr(dir, "user.x", []byte("x"), 0)
	}
	if err != nil {
		dir = t.TempDir()
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	s := &stage{dir: dir, inside: map[Marks]*insider{}}
	t.Cleanup(func() {
		for _, in := range s.inside {
			in.end()
		}
	})
	return s
}

// hostOf is what screening is told of the host.
func hostOf(v hostView, source string) ScreenOptions {
	opt := ScreenOptions{Homes: mapped(v.homes, func(home string) string { return filepath.Join(source, home) }), Search: v.search}
	for _, p := range v.named {
		opt.Named = append(opt.Named, obeyed.Named{Path: p, Tool: "git", Why: "git runs it"})
	}
	return opt
}

// play plays a scene in an overlay of a kind. strict says that each step must work.
func (s *stage) play(t testing.TB, sc scene, marks Marks, strict bool) (out played, err error) {
	top := filepath.Join(s.dir, "scene")
	defer func() {
		if e := removeScene(top); e != nil && err == nil {
			err = e
		}
	}()
	if err := removeScene(top); err != nil {
		return out, err
	}
	source, outside := filepath.Join(top, "source"), filepath.Join(top, "outside")
	for _, dir := range []string{"", "/source", "/outside", "/journal", "/merged", "/work", "/trash"} {
		if err := os.Mkdir(top+dir, 0o755); err != nil {
			return out, err
		}
	}
	expand := strings.NewReplacer("{SOURCE}", source, "{OUT}", outside).Replace
	for _, line := range sc.outside {
		if err := make1(outside, expand(line)); err != nil && strict {
			return out, fmt.Errorf("%s: %w", line, err)
		}
	}
	for _, line := range sc.source {
		if err := make1(source, expand(line)); err != nil && strict {
			return out, fmt.Errorf("%s: %w", line, err)
		}
	}
	p := &player{stage: s, t: t, top: top, source: source, marks: marks, strict: strict, names: sc.names, expand: expand,
		host: hostView{sc.homes, sc.named, mapped(sc.search, expand)}}
	if err := p.newLayer(); err != nil {
		return out, err
	}
	defer p.close()
	for _, step := range sc.steps {
		if err := p.step(expand(step), &out); err != nil {
			return out, fmt.Errorf("%s: %w", step, err)
		}
		if len(out.violations) > 0 && !strict {
			break
		}
	}
	if err := p.flush(); err != nil {
		return out, err
	}
	out.source = contents(source)
	return out, nil
}

// removeScene removes what a scene has left, also what its owner cannot enter.
func removeScene(top string) error {
	err := os.RemoveAll(top)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(top, func(p string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(top)
}

// make1 makes a file of a line.
func make1(top, line string) error {
	p, text, _ := strings.Cut(line, " ")
	at := filepath.Join(top, p)
	if strings.HasSuffix(p, "/") {
		return os.MkdirAll(at, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	if to, link := strings.CutPrefix(text, "->"); link {
		return os.Symlink(to, at)
	}
	if program, is := strings.CutPrefix(text, "*"); is {
		return os.WriteFile(at, []byte(program), 0o755)
	}
	return os.WriteFile(at, []byte(text), 0o644)
}

// player plays one scene.
type player struct {
	*stage
	t           testing.TB
	top, source string
	marks       Marks
	strict      bool
	names       bool
	expand      func(string) string
	host        hostView
	layers      int
	layer       *Layer
	known       map[string]Record
	pending     []string // steps of commands that were not done yet
	lost        bool     // the layer lost a renamed directory: it has no changes any more
	seen        *sourceState
}

// sourceState is what a source has, and what the host obeys in it.
type sourceState struct {
	obeyed map[string]*fact
	traced bool
	text   map[string]string
	modes  map[string]fs.FileMode
}

// look looks at the source. What was seen before is still true if nothing has changed.
func (p *player) look(trace bool) *sourceState {
	now := &sourceState{traced: trace}
	now.text, now.modes = contentsAndModes(p.source)
	if was := p.seen; was != nil && was.traced == trace && maps.Equal(was.text, now.text) && maps.Equal(was.modes, now.modes) {
		return was
	}
	now.obeyed = obeyedIn(p.source, now.text, p.host, trace)
	p.seen = now
	return now
}

func (p *player) upper() string { return filepath.Join(p.top, "upper"+strconv.Itoa(p.layers)) }

func (p *player) close() {
	if p.layer != nil {
		_ = p.layer.Source.Close()
		_ = p.layer.Upper.Close()
	}
}

// newLayer begins a layer. What is in the source is older, without that anybody waits: the layer
// begins in an instant.
func (p *player) newLayer() error {
	if err := p.flush(); err != nil {
		return err
	}
	p.close()
	p.layers++
	if err := os.Mkdir(p.upper(), 0o755); err != nil {
		return err
	}
	began, err := Now()
	if err != nil {
		return err
	}
	began.Realtime, began.Boottime = began.Realtime.Add(tick+time.Millisecond), began.Boottime+tick+time.Millisecond
	p.layer, p.known, p.lost = &Layer{Marks: p.marks, Began: began}, map[string]Record{}, false
	for dir, f := range map[string]**os.File{p.source: &p.layer.Source, p.upper(): &p.layer.Upper} {
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		*f = os.NewFile(uintptr(fd), dir)
	}
	return nil
}

// flush has commands do what is pending.
func (p *player) flush() error {
	if len(p.pending) == 0 {
		return nil
	}
	in := p.inside[p.marks]
	if in == nil {
		var err error
		if in, err = newInsider(p.marks); err != nil {
			return err
		}
		p.inside[p.marks] = in
	}
	err := in.do(insideJob{Dir: p.top, Upper: filepath.Base(p.upper()), Marks: p.marks, Ops: p.pending, Strict: p.strict})
	p.pending = nil
	return err
}

func (p *player) step(step string, out *played) error {
	word, rest, _ := strings.Cut(step, " ")
	switch word {
	case "layer":
		return p.newLayer()
	case "host":
		if err := p.flush(); err != nil {
			return err
		}
		if wait := time.Until(p.layer.Began.Realtime); wait > 0 {
			time.Sleep(wait + time.Millisecond)
		}
		if err := doStep(p.source, rest); err != nil && p.strict {
			return err
		}
		return nil
	case "commit":
		if err := p.flush(); err != nil {
			return err
		}
		return p.commit(step, rest, out)
	}
	p.pending = append(p.pending, step)
	return nil
}

// commit commits, and checks the properties.
func (p *player) commit(step, args string, out *played) error {
	if p.lost {
		return nil
	}
	ctx := p.t.Context()
	changes, err := p.layer.Changes(ctx)
	var lostErr *LostError
	if errors.As(err, &lostErr) {
		p.lost = true
		return nil
	}
	if err != nil {
		return err
	}
	opt := CommitOptions{Journal: filepath.Join(p.top, "journal"), Known: p.known, Screen: hostOf(p.host, p.source), Clock: func() (Began, error) {
		b := p.layer.Began
		return Began{b.Realtime.Add(time.Hour), b.Boottime + time.Hour}, nil
	}}
	parseCommit(strings.Fields(args), changes, &opt)
	opt.Paths, opt.Accept = p.matching(changes, opt.Paths), p.matching(changes, opt.Accept)
	if len(changes) == 0 {
		return nil
	}
	if p.names {
		opt.Screen.Names = obeyed.ReadNames(ctx, []string{p.source}).Below(ctx, p.source, int(p.layer.Source.Fd()))
		if opt.Screen.Names == nil {
			return errors.New("no names were read")
		}
	}
	trace := len(opt.Accept) > 0
	before := p.look(trace)
	r, err := p.layer.Commit(ctx, changes, opt)
	after := p.look(trace)
	landed := r.Landed
	if err != nil {
		landed = nil
	}
	for _, list := range [][]string{differs(before.obeyed, after.obeyed, changes, opt.Accept), lost(before.text, after.text, changes, landed, p.upper(), opt.Accept), unexplained(before.text, after.text, landed)} {
		for _, v := range list {
			out.violations = append(out.violations, v+" ["+step+"]")
		}
	}
	out.commits = append(out.commits, committed{step, changes, r, err})
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict) && !p.strict:
		return nil
	case err != nil:
		return err
	}
	maps.Copy(p.known, r.Records)
	p.layers++ // for a name that is new
	trash := filepath.Join(p.top, "trash", strconv.Itoa(p.layers))
	p.layers--
	if err := os.MkdirAll(trash, 0o755); err != nil {
		return err
	}
	err = p.layer.Settle(r.Landed, trash)
	_ = removeScene(trash)
	return err
}

// matching returns the paths at which something has changed.
func (p *player) matching(changes []Change, paths []string) []string {
	if p.strict {
		return paths
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		return !slices.ContainsFunc(changes, func(ch Change) bool { return delta.In(ch.Path, path) })
	})
}

func parseCommit(args []string, changes []Change, opt *CommitOptions) {
	some := func(n string, of uint32) (paths []string) {
		for _, ch := range changes {
			h := fnv.New32a()
			_, _ = io.WriteString(h, n+ch.Path)
			if h.Sum32()>>8%of == 0 {
				paths = append(paths, ch.Path)
			}
		}
		return paths
	}
	for ; len(args) > 0; args = args[1:] {
		next := ""
		if len(args) > 1 {
			next = args[1]
		}
		switch args[0] {
		case "-skip":
			opt.OnConflict = Skip
		case "-overwrite":
			opt.OnConflict = Overwrite
		case "-accept":
			opt.Accept, args = append(opt.Accept, next), args[1:]
		case "-half":
			opt.Paths, args = append(opt.Paths, some(next, 2)...), args[1:]
		case "-some":
			opt.Accept, args = append(opt.Accept, some(next, 4)...), args[1:]
		default:
			opt.Paths = append(opt.Paths, args[0])
		}
	}
}

// doStep does a step of commands in a tree.
func doStep(top, step string) error {
	f := strings.SplitN(step, " ", 3)
	for len(f) < 3 {
		f = append(f, "")
	}
	at := filepath.Join(top, f[1])
	if at == top {
		return errors.New("not the tree itself")
	}
	mode := fs.FileMode(0o644)
	switch f[0] {
	case "exec":
		mode = 0o755
		fallthrough
	case "write":
		if fi, err := os.Lstat(at); err == nil && !fi.Mode().IsRegular() {
			if err := os.RemoveAll(at); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(f[2]), mode); err != nil {
			return err
		}
		return os.Chmod(at, mode)
	case "mkdir":
		if fi, err := os.Lstat(at); err == nil && !fi.IsDir() {
			_ = os.Remove(at)
		}
		return os.MkdirAll(at, 0o755)
	case "rm":
		if _, err := os.Lstat(at); err != nil {
			return err
		}
		return os.RemoveAll(at)
	case "ln":
		if err := os.RemoveAll(at); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		return os.Symlink(f[2], at)
	case "chmod":
		n, err := strconv.ParseUint(f[2], 8, 9)
		if err != nil {
			return err
		}
		return os.Chmod(at, fs.FileMode(n))
	case "mv", "cp":
		to := filepath.Join(top, f[2])
		if to == top || to == at || strings.HasPrefix(to, at+"/") || strings.HasPrefix(at, to+"/") {
			return errors.New("not into or over itself")
		}
		if _, err := os.Lstat(at); err != nil {
			return err
		}
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if f[0] == "mv" {
			if err := os.Rename(at, to); !errors.Is(err, unix.EXDEV) {
				return err
			}
		}
		if err := copyAll(at, to); err != nil || f[0] == "cp" {
			return err
		}
		return os.RemoveAll(at)
	}
	return fmt.Errorf("unknown step %q", step)
}

// copyAll copies a tree, as mv does where it cannot rename.
func copyAll(from, to string) error {
	return filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := to + strings.TrimPrefix(p, from)
		fi, err := d.Info()
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Mkdir(at, fi.Mode().Perm())
		case d.Type()&fs.ModeSymlink != 0:
			text, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(text, at)
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(at, text, fi.Mode().Perm())
	})
}

// insideJob is what commands do in an overlay.
type insideJob struct {
	Dir, Upper string
	Marks      Marks
	Ops        []string
	Strict     bool
}

const insideJobs = "PADDOCK_TEST_INSIDE"

func init() {
	if os.Getenv(insideJobs) != "" {
		serveInside()
		os.Exit(0)
	}
}

// serveInside mounts an overlay for each job, and does its steps.
func serveInside() {
	_ = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	in, out := json.NewDecoder(os.Stdin), bufio.NewWriter(os.Stdout)
	for {
		var job insideJob
		if in.Decode(&job) != nil {
			return
		}
		answer := ""
		if err := job.run(); err != nil {
			answer = err.Error()
		}
		_, _ = out.WriteString(strconv.Quote(answer) + "\n")
		_ = out.Flush()
	}
}

const mountFailed = "mount: "

func (j *insideJob) run() error {
	options := fmt.Sprintf("lowerdir=source,upperdir=%s,workdir=work,index=off,metacopy=off,volatile,", j.Upper)
	if j.Marks == UserMarks {
		options += "userxattr"
	} else {
		options += "redirect_dir=on"
	}
	if err := errors.Join(os.Chdir(j.Dir), os.RemoveAll("work"), os.Mkdir("work", 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", "merged", "overlay", 0, options); err != nil {
		return errors.New(mountFailed + err.Error())
	}
	var failed error
	merged := filepath.Join(j.Dir, "merged")
	for _, op := range j.Ops {
		if err := doStep(merged, op); err != nil && j.Strict {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", op, err))
		}
	}
	return errors.Join(failed, unix.Unmount("merged", 0), os.RemoveAll("work"), os.Mkdir("work", 0o755), os.Chdir("/"))
}

// insider is a process that works in overlays.
type insider struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newInsider(marks Marks) (*insider, error) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env, cmd.Stderr = append(os.Environ(), insideJobs+"=1"), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	if marks == UserMarks {
		cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: %v", errNoOverlay, err)
		}
		return nil, err
	}
	return &insider{cmd, in, bufio.NewReader(out)}, nil
}

func (i *insider) do(job insideJob) error {
	if err := json.NewEncoder(i.in).Encode(job); err != nil {
		return err
	}
	line, err := i.out.ReadString('\n')
	if err != nil {
		return err
	}
	answer, err := strconv.Unquote(strings.TrimSpace(line))
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(answer, mountFailed):
		return fmt.Errorf("%w: %s", errNoOverlay, answer)
	case answer != "":
		return errors.New(answer)
	}
	return nil
}

func (i *insider) end() {
	_ = i.in.Close()
	_ = i.cmd.Wait()
}

// marksHere are the kinds of overlays that this user can have.
func marksHere() []Marks {
	if os.Geteuid() == 0 {
		return []Marks{UserMarks, TrustedMarks}
	}
	return []Marks{UserMarks}
}
