package audit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestReader(t *testing.T) {
	log, dir, numbers := many(t, 60)
	text := read(t, dir, 2)
	write(t, dir, 2, append([]byte("bad\n"+strings.Repeat("x", 3*MaxRecord)+"\n"), text...))
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	seq, bad := uint64(0), 0
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Err != nil {
			if bad++; e.File != fileName(2) || e.Line != bad {
				t.Errorf("bad line %s:%d: %v", e.File, e.Line, e.Err)
			}
			continue
		}
		if seq++; e.Record.Seq != seq || !bytes.Contains(e.Text, []byte(e.Record.Hash)) {
			t.Fatalf("record %d is %+v", seq, e.Record)
		}
	}
	if seq != 60 || bad != 2 || len(numbers) != 4 {
		t.Errorf("%d records, %d bad lines", seq, bad)
	}
	add(t, log, 1, 10) // a reader at its end may be asked again
	if e, err := r.Next(); err != nil || e.Record.Seq != 61 {
		t.Errorf("then comes %+v, %v", e, err)
	}
	if _, err := Open(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

// TestFollow follows through rotations and pruning, a record at a time.
func TestFollow(t *testing.T) {
	log, dir := newLog(t, 1)
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	next := make(chan uint64)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		defer close(next)
		for {
			e, err := r.Follow(ctx)
			if err != nil {
				ended <- err
				return
			}
			next <- e.Record.Seq
		}
	}()
	want := uint64(0)
	for range 12 {
		last := add(t, log, 12, 6000)
		for want < last.Seq {
			if want++; <-next != want {
				t.Fatalf("a record other than %d came", want)
			}
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("following ended with %v", err)
	}
}

// TestHundredThousand prints what verification takes.
func TestHundredThousand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	log := At(dir, Options{MaxSize: 16 << 20})
	const count = 100_000
	for range count {
		if _, err := log.Append(t.Context(), call(200)); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	top, stop := make(chan uint64), make(chan struct{})
	go watchHeap(top, stop)
	from := time.Now()
	r := verify(t, dir, "")
	took := time.Since(from)
	close(stop)
	peak := <-top
	runtime.ReadMemStats(&after)
	if !r.OK || r.Seq != count || r.Files < 3 {
		t.Fatalf("report is %+v", r)
	}
	grown := int64(peak) - int64(before.HeapInuse)
	t.Logf("%d records in %d files verified in %v, %d KiB of heap more at most", count, r.Files, took, grown>>10)
	if grown > 32<<20 {
		t.Errorf("verification needed %d bytes", grown)
	}
}

// watchHeap measures until it is told to stop.
func watchHeap(top chan<- uint64, stop <-chan struct{}) {
	var peak uint64
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapInuse)
		select {
		case <-stop:
			top <- peak
			return
		case <-tick.C:
		}
	}
}

// FuzzLog puts anything into a log's files: nothing may crash, hang or be
// found in order that is not, and appending goes on behind it.
func FuzzLog(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "audit")
	log := At(dir, Options{})
	for range 3 {
		if _, err := log.Append(f.Context(), call(5)); err != nil {
			f.Fatal(err)
		}
	}
	good, err := os.ReadFile(filepath.Join(dir, fileName(1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, []byte(nil))
	f.Add(good[:len(good)-1], []byte("x"))
	f.Add([]byte("\n\n{}\n"), good)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		dir := filepath.Join(t.TempDir(), "audit")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, dir, 1, one)
		write(t, dir, 2, two)
		before := verify(t, dir, "")
		log := At(dir, Options{})
		defer log.Close()
		last, err := log.Append(t.Context(), call(5))
		if err != nil {
			t.Fatal(err)
		}
		after := verify(t, dir, last.Hash)
		if after.Head != last.Hash || before.OK && !after.OK {
			t.Errorf("before %+v, after %+v", before, after)
		}
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var records uint64
		for e, err := r.Next(); ; e, err = r.Next() {
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e.Err == nil {
				records++
			}
		}
		if records != after.Records {
			t.Errorf("%d records were read, %d verified", records, after.Records)
		}
	})
}

// FuzzVerify changes one byte of anything that was found to be in order.
func FuzzVerify(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "audit")
	log := At(dir, Options{})
	for range 3 {
		if _, err := log.Append(f.Context(), call(5)); err != nil {
			f.Fatal(err)
		}
	}
	good, err := os.ReadFile(filepath.Join(dir, fileName(1)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, uint(0), byte(1))
	f.Add(good[:len(good)-1], uint(40), byte(2))
	f.Add([]byte("\n\n{}\n"), uint(1), byte(1))
	look := func(t *testing.T, text []byte) Report {
		v := verifier{prev: Genesis}
		if err := v.walk(t.Context(), fileName(1), bytes.NewReader(text), int64(len(text))); err != nil {
			t.Fatal(err)
		}
		v.finish()
		return v.report
	}
	f.Fuzz(func(t *testing.T, text []byte, at uint, mask byte) {
		r := look(t, text)
		if !r.OK || len(text) == 0 || mask == 0 {
			return
		}
		changed := bytes.Clone(text)
		changed[at%uint(len(text))] ^= mask
		if r := look(t, changed); r.OK {
			t.Errorf("%q is in order, and so is %q", text, changed)
		}
	})
}
