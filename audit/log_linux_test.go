package audit

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestChain checks the format as a stranger would, without this package's code.
func TestChain(t *testing.T) {
	_, dir := newLog(t, 3)
	prev := strings.Repeat("0", 64)
	for i, line := range bytes.Split(bytes.TrimSuffix(read(t, dir, 1), []byte("\n")), []byte("\n")) {
		body, _, ok := bytes.Cut(line, []byte(`,"hash":"`))
		var r struct {
			Seq        int
			Prev, Hash string
			Time       time.Time
		}
		if err := json.Unmarshal(line, &r); err != nil || !ok {
			t.Fatalf("line %d: %v", i+1, err)
		}
		sum := sha256.Sum256(body)
		if r.Seq != i+1 || r.Prev != prev || r.Hash != hex.EncodeToString(sum[:]) || r.Time.Location() != time.UTC {
			t.Errorf("line %d is %s", i+1, line)
		}
		prev = r.Hash
	}
	if got := verify(t, dir, ""); !got.OK || got.Records != 3 || got.Head != prev || got.Seq != 3 || got.Files != 1 {
		t.Errorf("report is %+v", got)
	}
}

func TestModes(t *testing.T) {
	_, dir := newLog(t, 1)
	for name, want := range map[string]fs.FileMode{".": fs.ModeDir | 0o700, "lock": 0o600, fileName(1): 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

func TestLongRecord(t *testing.T) {
	log, dir := newLog(t, 1)
	r := call(1 << 20)
	r.Error, r.Principal = strings.Repeat("é", 1<<20), strings.Repeat("p", 1<<20)
	r.Denials = make([]Denial, 1000)
	for i := range r.Denials {
		r.Denials[i].Object = strings.Repeat("o", 1<<12)
	}
	got, err := log.Append(t.Context(), r)
	if err != nil || string(got.Args) != `{"cut_bytes":1048589}` || len(got.Denials) != 8 || len(got.Error) > maxText+3 {
		t.Errorf("the record became %.100s, %d denials, %v", got.Args, len(got.Denials), err)
	}
	if report := verify(t, dir, got.Hash); !report.OK || report.Records != 2 {
		t.Errorf("report is %+v", report)
	}
}

func TestDirectoryThatCannotBeTrusted(t *testing.T) {
	base := t.TempDir()
	open := filepath.Join(base, "open")
	file := filepath.Join(base, "file")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ dir, want string }{
		{open, "others can write to " + open},
		{filepath.Join(open, "audit"), "others can write to " + open},
		{file, "not a directory"},
		{filepath.Join(file, "audit"), "not a directory"},
	}
	for _, tt := range tests {
		_, err := At(tt.dir, Options{}).Append(t.Context(), call(1))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "cannot write to the audit log in ") {
			t.Errorf("%s: error is %v, want %q", tt.dir, err, tt.want)
		}
	}
}

func TestLockHeldByAnother(t *testing.T) {
	log, dir := newLog(t, 1)
	other, err := openDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	unlock, err := other.hold(t.Context(), syscall.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := log.Append(ctx, call(1))
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("error is %v", err)
	}
	go func() {
		_, err := log.Append(t.Context(), call(1))
		done <- err
	}()
	unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r := verify(t, dir, ""); !r.OK || r.Records != 2 {
		t.Errorf("report is %+v", r)
	}
}

func TestAppendSyncTogether(t *testing.T) {
	log, dir := newLog(t, 0)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 10 {
				if _, err := log.AppendSync(t.Context(), call(100)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if r := verify(t, dir, ""); !r.OK || r.Records != 320 {
		t.Errorf("report is %+v", r)
	}
}

func TestCloseAndGoOn(t *testing.T) {
	log, dir := newLog(t, 2)
	if err := errors.Join(log.Close(), log.Close()); err != nil {
		t.Fatal(err)
	}
	last := add(t, log, 1, 10)
	if r := verify(t, dir, last.Hash); !r.OK || r.Records != 3 || r.After != 0 {
		t.Errorf("report is %+v", r)
	}
}

func TestFullDisk(t *testing.T) {
	log, dir := newLog(t, 1)
	before := read(t, dir, 1)
	cmd, out := start(t, "full", dir)
	if !out.Scan() || !strings.Contains(out.Text(), "file too large") {
		t.Errorf("the writer says %q", out.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if after := read(t, dir, 1); !bytes.Equal(after, before) {
		t.Errorf("the file has become %q", after)
	}
	add(t, log, 1, 10)
	if r := verify(t, dir, ""); !r.OK || r.Repairs != 0 || r.Records != 2 {
		t.Errorf("report is %+v", r)
	}
}

func BenchmarkAppend(b *testing.B) {
	log := At(filepath.Join(b.TempDir(), "audit"), Options{})
	for b.Loop() {
		if _, err := log.Append(b.Context(), call(200)); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFirst is what a process pays that appends one record.
func BenchmarkFirst(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "audit")
	for b.Loop() {
		log := At(dir, Options{})
		if _, err := log.Append(b.Context(), call(200)); err != nil {
			b.Fatal(err)
		}
		log.timer.Stop()
		log.timer = nil // nobody waits at a process's end
		_ = log.Close()
	}
}

func BenchmarkAppendSync(b *testing.B) {
	log := At(filepath.Join(b.TempDir(), "audit"), Options{})
	for b.Loop() {
		if _, err := log.AppendSync(b.Context(), call(200)); err != nil {
			b.Fatal(err)
		}
	}
}
