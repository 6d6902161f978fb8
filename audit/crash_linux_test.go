package audit

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestEachTear continues after a last line of every length.
func TestEachTear(t *testing.T) {
	log, dir := newLog(t, 3)
	text := read(t, dir, 1)
	last := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for n := last; n < len(text); n++ {
		write(t, dir, 1, text[:n])
		add(t, log, 2, 10)
		r := verify(t, dir, "")
		torn := n > last && n < len(text)-1
		if !r.OK || (r.Repairs == 1) != torn || !bytes.HasPrefix(read(t, dir, 1), text[:n]) {
			t.Fatalf("torn after %d bytes of the last line: %+v\n%s", n-last, r, read(t, dir, 1))
		}
	}
}

// TestTornFirstLine: of a file, and of the log.
func TestTornFirstLine(t *testing.T) {
	log, dir, numbers := many(t, 60)
	newest := numbers[len(numbers)-1]
	for _, text := range []string{"", `{"seq":`} {
		write(t, dir, newest, []byte(text))
		last := add(t, log, 1, 10)
		if r := verify(t, dir, last.Hash); !r.OK || (r.Repairs > 0) != (text != "") {
			t.Errorf("%q: %+v", text, r)
		}
	}
	log, dir = newLog(t, 1)
	write(t, dir, 1, []byte(`{"seq":`))
	add(t, log, 1, 10)
	if r := verify(t, dir, ""); !r.OK || r.Repairs != 1 || r.Records != 2 {
		t.Errorf("report is %+v", r)
	}
}

// TestRepairIsNoExcuse: what was changed after the repair is found, and so is
// what no killed process leaves.
func TestRepairIsNoExcuse(t *testing.T) {
	log, dir := newLog(t, 3)
	text := read(t, dir, 1)
	write(t, dir, 1, append(text, "{\"seq\":"...))
	add(t, log, 1, 10)
	repaired := read(t, dir, 1)
	for i := len(text); i < len(repaired); i++ {
		changed := bytes.Clone(repaired)
		changed[i] ^= 1
		write(t, dir, 1, changed)
		mustFail(t, dir, "", "a byte changed after a repair", 1)
	}
	for _, stranger := range []string{"gone\n", "gone\nhalf", "\n", strings.Repeat("x", 2*MaxRecord) + "\nhalf"} {
		write(t, dir, 1, append(bytes.Clone(text), stranger...))
		add(t, log, 1, 10)
		mustFail(t, dir, "", "lines that no crash leaves", 1)
	}
}

// TestKilledInMidWrite has the kernel end a process between two parts of a
// record: at a limit for the size of files.
func TestKilledInMidWrite(t *testing.T) {
	log, dir := newLog(t, 1)
	before := read(t, dir, 1)
	cmd, out := start(t, "killed", dir)
	if out.Scan() {
		t.Errorf("the writer says %q", out.Text())
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the writer was not ended")
	}
	if torn := read(t, dir, 1); len(torn) != 1000 || !bytes.HasPrefix(torn, before) {
		t.Fatalf("%d bytes were left", len(torn))
	}
	if r := verify(t, dir, ""); r.OK || !strings.Contains(r.Problems[0].What, "unfinished") || r.Problems[0].Line != 2 {
		t.Errorf("report is %+v", r)
	}
	add(t, log, 1, 10)
	if r := verify(t, dir, ""); !r.OK || r.Repairs != 1 || r.Records != 3 {
		t.Errorf("once repaired it is %+v", r)
	}
}

// TestKilledWriters kills processes while they append large records, which
// the kernel writes page by page. No acknowledged record is lost, and what
// they leave is repaired.
func TestKilledWriters(t *testing.T) {
	dir := t.TempDir() + "/audit"
	var acknowledged []string
	for i := range 30 {
		cmd, out := start(t, "append", dir, "1000000", fmt.Sprint(40000+i))
		for n := 0; n <= i%4 && out.Scan(); n++ {
			acknowledged = append(acknowledged, out.Text())
		}
		_ = cmd.Process.Kill()
		for out.Scan() {
			acknowledged = append(acknowledged, out.Text())
		}
		_ = cmd.Wait()
	}
	log := At(dir, Options{MaxSize: minSize, Keep: 4})
	defer log.Close()
	add(t, log, 1, 10)
	r := verify(t, dir, "")
	if !r.OK {
		t.Fatalf("report is %+v", r)
	}
	t.Logf("%d acknowledged, %d repairs", len(acknowledged), r.Repairs)
	kept := make(map[string]bool)
	reader, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	var first uint64
	for e, err := reader.Next(); err == nil; e, err = reader.Next() {
		if first == 0 {
			first = e.Record.Seq
		}
		kept[fmt.Sprint(e.Record.Seq, " ", e.Record.Hash)] = true
	}
	for _, line := range acknowledged {
		var seq uint64
		if _, err := fmt.Sscan(line, &seq); err == nil && seq >= first && !kept[line] {
			t.Errorf("record %s was acknowledged and is not there", line)
		}
	}
}

func TestManyProcesses(t *testing.T) {
	const processes, each = 6, 150
	dir := t.TempDir() + "/audit"
	type running struct{ wait func() error }
	var all []running
	seen := make(map[string]bool)
	for range processes {
		cmd, out := start(t, "append", dir, fmt.Sprint(each), "1500")
		all = append(all, running{func() error {
			for out.Scan() {
				seen[out.Text()] = true
			}
			return cmd.Wait()
		}})
	}
	for _, p := range all {
		if err := p.wait(); err != nil {
			t.Error(err)
		}
	}
	r := verify(t, dir, "")
	if !r.OK || r.Files != 4 || r.Pruned == 0 || r.Repairs != 0 {
		t.Errorf("report is %+v", r)
	}
	if len(seen) != processes*each {
		t.Errorf("%d different records were acknowledged, want %d", len(seen), processes*each)
	}
	if seq := int(r.Seq); seq < processes*each || seq > processes*each+40 {
		t.Errorf("the last record has number %d", seq)
	}
}
