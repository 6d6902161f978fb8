package audit

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func begin(t *testing.T, log *Log) Record {
	t.Helper()
	r, err := log.Append(t.Context(), Record{Kind: KindBegin, Principal: "local:me", Op: "run"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func end(t *testing.T, log *Log, begun Record) {
	t.Helper()
	if _, err := log.Append(t.Context(), Record{Kind: KindEnd, Call: begun.Seq, Op: "run", Outcome: OutcomeOK}); err != nil {
		t.Fatal(err)
	}
}

func marks(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(dir, begunDir))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestRunningOrLost: what has begun runs while its process does, and is lost without
// it; the first process that appends after it tells so, once, and the log for ever.
func TestRunningOrLost(t *testing.T) {
	log, dir := newLog(t, 1)
	end(t, log, begin(t, log))
	own := begin(t, log)
	cmd, out := start(t, "begin", dir)
	if !out.Scan() {
		t.Fatal("the other process says nothing")
	}
	r := verify(t, dir, "")
	if !r.OK || r.RunningCount != 2 || r.LostCount+r.UnknownCount != 0 || marks(t, dir) != 2 {
		t.Fatalf("while both run: %+v", r)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	lost := func(when string) {
		t.Helper()
		r := verify(t, dir, "")
		if !r.OK || r.RunningCount != 1 || r.Running[0].Seq != own.Seq || r.LostCount != 1 || r.Lost[0].Op != "run" || r.Lost[0].Line != int(own.Seq)+1 {
			t.Fatalf("%s: %+v", when, r)
		}
	}
	lost("after it was killed")
	add(t, log, 1, 10)
	if told := log.Lost(); len(told) != 0 {
		t.Errorf("a process that has looked before tells of %v", told)
	}
	next := At(dir, Options{MaxSize: minSize, Keep: 4})
	defer next.Close()
	add(t, next, 1, 10)
	if told := next.Lost(); len(told) != 1 || told[0] != own.Seq+1 || len(next.Lost()) != 0 {
		t.Errorf("the next process tells of %v", told)
	}
	lost("once that is on record")
	after := At(dir, Options{MaxSize: minSize, Keep: 4})
	defer after.Close()
	add(t, after, 1, 10)
	if told := after.Lost(); len(told) != 0 || marks(t, dir) != 1 {
		t.Errorf("one more process tells of %v", told)
	}
	end(t, log, own)
	if r := verify(t, dir, ""); r.RunningCount != 0 || r.LostCount != 1 || marks(t, dir) != 0 {
		t.Errorf("at the end: %+v", r)
	}
}

// TestProcessOfARecord: a number that another process has got, or had before the
// machine started anew, does not count, and in another namespace nobody can tell.
func TestProcessOfARecord(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Process)
		want   int
	}{
		"this one":          {func(*Process) {}, processRuns},
		"a number again":    {func(p *Process) { p.Start++ }, processGone},
		"no such number":    {func(p *Process) { p.PID = 1 << 23 }, processGone},
		"before":            {func(p *Process) { p.Boot = "x" }, processGone},
		"another namespace": {func(p *Process) { p.Namespace++ }, processUnknown},
	} {
		p := *self()
		tt.change(&p)
		if got := p.state(); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
		if seq, back, ok := parseMark(filepath.Base(p.markName(7))); !ok || seq != 7 || back != p {
			t.Errorf("%s: read back as %d %+v", name, seq, back)
		}
	}
	for _, name := range []string{"", "x", "1-2-3-4", "1-2-3-4-a b", "01-2-3-4-a", "-1-2-3-4-a"} {
		if _, _, ok := parseMark(name); ok {
			t.Errorf("%q is a mark", name)
		}
	}
}

// TestEndThatCannotBeWritten is on record as soon as there is room.
func TestEndThatCannotBeWritten(t *testing.T) {
	for _, closed := range []bool{false, true} {
		log, dir := newLog(t, 1)
		begun := begin(t, log)
		full(t, dir, func() {
			if _, err := log.Append(t.Context(), Record{Kind: KindEnd, Call: begun.Seq, Op: "run", Outcome: OutcomeOK}); err == nil {
				t.Fatal("it was written")
			}
			if _, err := log.Append(t.Context(), Record{Kind: KindBegin, Op: "run"}); err == nil {
				t.Fatal("another began")
			}
		})
		if r := verify(t, dir, ""); !r.OK || r.RunningCount != 1 || r.Records != 2 {
			t.Errorf("meanwhile: %+v", r)
		}
		want := uint64(4)
		if closed {
			if err := log.Close(); err != nil {
				t.Fatal(err)
			}
			want = 3
		} else {
			add(t, log, 1, 10)
		}
		if r := verify(t, dir, ""); !r.OK || r.RunningCount+r.LostCount != 0 || r.Records != want || marks(t, dir) != 0 {
			t.Errorf("afterwards: %+v", r)
		}
	}
}

// full does something while no file of this process may grow beyond that of the log.
func full(t *testing.T, dir string, do func()) {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	bound := old
	bound.Cur = uint64(len(read(t, dir, 1)))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &bound); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// TestBegunRecordsAreJSON: the encoder writes what encoding/json reads back the same.
func TestBegunRecordsAreJSON(t *testing.T) {
	for _, r := range []Record{
		{Kind: KindBegin, Op: "run", Process: self()},
		{Kind: KindLost, Lost: []uint64{1, 2, 1 << 60}},
	} {
		line, err := r.encode()
		var back Record
		if err != nil || json.Unmarshal(line, &back) != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(r)
		got, _ := json.Marshal(back)
		if string(got) != string(want) || strings.Count(string(line), "\n") != 1 {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestMarksBehindALink: a link in the place of the marks is not followed.
func TestMarksBehindALink(t *testing.T) {
	for name, linked := range map[string]bool{"a directory": false, "a link": true} {
		log, dir := newLog(t, 1)
		end(t, log, begin(t, log))
		at := filepath.Join(dir, begunDir)
		gone := Process{PID: 1 << 22, Start: 1, Namespace: self().Namespace, Boot: self().Boot}
		mark := filepath.Join(dir, "real", filepath.Base(gone.markName(1)))
		if !linked {
			mark = filepath.Join(at, filepath.Base(mark))
		} else if err := errors.Join(os.RemoveAll(at), os.Mkdir(filepath.Join(dir, "real"), 0o700), os.Symlink("real", at)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		end(t, At(dir, Options{}), begin(t, At(dir, Options{})))
		if _, err := os.Lstat(mark); (err == nil) != linked {
			t.Errorf("%s: %v", name, err)
		}
	}
}
