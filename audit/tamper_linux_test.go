package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// mustFail checks that what was done to a log is found, in the right file.
func mustFail(t *testing.T, dir, head, what string, file int) {
	t.Helper()
	r := verify(t, dir, head)
	if r.OK || len(r.Problems) == 0 {
		t.Fatalf("%s was not found: %+v", what, r)
	}
	if p := r.Problems[0]; file > 0 && p.File != fileName(file) {
		t.Errorf("%s was found in %s, not in file %d: %s", what, p.File, file, p.What)
	}
}

func TestEachByteChanged(t *testing.T) {
	log, dir := newLog(t, 5)
	text := read(t, dir, 1)
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for i := range text {
		for _, mask := range []byte{1, 0x80} {
			changed := bytes.Clone(text)
			changed[i] ^= mask
			write(t, dir, 1, changed)
			r := verify(t, dir, "")
			if r.OK || r.Problems[0].Line != 1+bytes.Count(text[:i], []byte("\n")) {
				t.Fatalf("byte %d (%q) changed by %#x: %+v", i, text[i], mask, r.Problems)
			}
			// It stays found when the log goes on; the last line alone may
			// have been cut instead, which its head's hash tells.
			if i%16 == 0 && i < last {
				add(t, log, 1, 10)
				mustFail(t, dir, "", "a changed byte, behind which the log went on", 1)
			}
		}
	}
	for i := last; i < len(text)-1; i++ {
		changed := bytes.Clone(text)
		changed[i] ^= 0x20
		write(t, dir, 1, changed)
		add(t, log, 1, 10)
		mustFail(t, dir, "", "a changed last record, behind which the log went on", 1)
	}
}

func TestEachLine(t *testing.T) {
	_, dir := newLog(t, 6)
	lines := bytes.SplitAfter(read(t, dir, 1), []byte("\n"))
	lines = lines[:len(lines)-1]
	head := verify(t, dir, "").Head
	put := func(all ...[]byte) { write(t, dir, 1, bytes.Join(all, nil)) }
	for i := range lines {
		put(slices.Concat(lines[:i], lines[i+1:])...)
		if i < len(lines)-1 {
			mustFail(t, dir, "", "a removed line", 1)
		}
		mustFail(t, dir, head, "a removed line", 1)
		for j := range lines {
			put(slices.Insert(slices.Clone(lines), j, lines[i])...)
			mustFail(t, dir, "", "a line said twice", 1)
			if i != j {
				swapped := slices.Clone(lines)
				swapped[i], swapped[j] = swapped[j], swapped[i]
				put(swapped...)
				mustFail(t, dir, "", "two lines swapped", 1)
			}
		}
		for _, stranger := range []string{"\n", "{}\n", "x", strings.Repeat("x", 3*MaxRecord) + "\n"} {
			put(slices.Insert(slices.Clone(lines), i, []byte(stranger))...)
			mustFail(t, dir, "", "a line that is no record", 1)
		}
	}
	put(lines...)
	if r := verify(t, dir, head); !r.OK {
		t.Errorf("the log itself is %+v", r)
	}
}

// TestForgedRecord writes a record anew with a hash that fits, as somebody
// would who knows the format but leaves the records behind it alone.
func TestForgedRecord(t *testing.T) {
	_, dir := newLog(t, 4)
	lines := bytes.SplitAfter(read(t, dir, 1), []byte("\n"))
	var r Record
	if err := parse(lines[1], &r); err != nil {
		t.Fatal(err)
	}
	r.Principal = "local:somebody else"
	forged, err := r.seal()
	if err != nil {
		t.Fatal(err)
	}
	lines[1] = forged
	write(t, dir, 1, bytes.Join(lines, nil))
	report := verify(t, dir, "")
	if want := (Problem{fileName(1), 3, "it does not continue the record before it: one of the two was changed (number 3)"}); report.OK || report.Wrong != 1 || report.Problems[0] != want {
		t.Errorf("report is %+v", report)
	}
}

func TestEachCut(t *testing.T) {
	_, dir := newLog(t, 4)
	text := read(t, dir, 1)
	whole := verify(t, dir, "")
	for n := range len(text) - 1 {
		write(t, dir, 1, text[:n])
		mustFail(t, dir, whole.Head, "a cut", 0)
		onLine := n == 0 || text[n-1] == '\n' || text[n] == '\n'
		if r := verify(t, dir, ""); r.OK != onLine {
			t.Fatalf("cut to %d bytes and asked without a head: %+v", n, r)
		}
	}
	write(t, dir, 1, text)
	mustFail(t, dir, strings.Repeat("a", 64), "a log written anew", 1)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	mustFail(t, dir, whole.Head, "a removed log", 0)
	if r := verify(t, dir, ""); !r.OK || r.Head != Genesis {
		t.Errorf("a log that never was is %+v", r)
	}
}

// many is a log of several files, of which the first ones were removed.
func many(t *testing.T, records int) (*Log, string, []int) {
	t.Helper()
	log, dir := newLog(t, 0)
	add(t, log, records, 4000)
	d, err := openDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	numbers, err := d.numbers()
	if err != nil {
		t.Fatal(err)
	}
	return log, dir, numbers
}

func TestFiles(t *testing.T) {
	tests := []struct {
		name    string
		records int
		files   []int
		pruned  bool
	}{
		{"all there", 60, []int{1, 2, 3, 4}, false},
		{"some pruned", 200, []int{10, 11, 12, 13}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, dir, numbers := many(t, tt.records)
			whole := verify(t, dir, "")
			if !whole.OK || !slices.Equal(numbers, tt.files) || tt.pruned != (whole.Pruned > 0) {
				t.Fatalf("files %v, %+v", numbers, whole)
			}
			name := func(n int) string { return filepath.Join(dir, fileName(n)) }
			for i, n := range numbers {
				aside := filepath.Join(dir, "aside")
				check := func(err error) {
					if err != nil {
						t.Fatal(err)
					}
				}
				check(os.Rename(name(n), aside))
				if i < len(numbers)-1 {
					mustFail(t, dir, "", "a removed file", 0)
				}
				mustFail(t, dir, whole.Head, "a removed file", 0)
				for _, other := range numbers[i+1:] {
					check(errors.Join(os.Rename(name(other), name(n)), os.Rename(aside, name(other))))
					mustFail(t, dir, "", "two files swapped", 0)
					check(errors.Join(os.Rename(name(other), aside), os.Rename(name(n), name(other))))
				}
				write(t, dir, n, nil)
				if i < len(numbers)-1 {
					mustFail(t, dir, "", "an emptied file", 0)
				}
				mustFail(t, dir, whole.Head, "an emptied file", 0)
				check(os.Rename(aside, name(n)))
			}
			if r := verify(t, dir, whole.Head); !r.OK {
				t.Errorf("put back, it is %+v", r)
			}
		})
	}
}

// TestCrashBetweenPruneAndRemove: the record stands, the files too.
func TestCrashBetweenPruneAndRemove(t *testing.T) {
	log, dir, _ := many(t, 60)
	first := read(t, dir, 1)
	for verify(t, dir, "").Pruned == 0 {
		add(t, log, 1, 4000)
	}
	write(t, dir, 1, first)
	if r := verify(t, dir, ""); !r.OK || r.Pruned != 0 {
		t.Errorf("report is %+v", r)
	}
	add(t, log, 30, 4000)
	if r := verify(t, dir, ""); !r.OK || r.Pruned == 0 || r.Files != 4 {
		t.Errorf("a rotation later it is %+v", r)
	}
}

// TestPipeInPlace: what opens a pipe waits for whoever writes to it.
func TestPipeInPlace(t *testing.T) {
	log, dir := newLog(t, 3)
	path := filepath.Join(dir, fileName(1))
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	want := fileName(1) + " is not a regular file"
	if _, err := Verify(t.Context(), dir, ""); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Verify: %v", err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Next(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Next: %v", err)
	}
	if _, err := log.Append(t.Context(), Record{}); err == nil {
		t.Error("Append: no error")
	}
}
