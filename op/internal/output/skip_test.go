package output

import (
	"bytes"
	"testing"
)

// What never comes is counted, and what comes after it is at its own place in the stream, also
// once that is more than is kept.
func TestSkip(t *testing.T) {
	n := (*Outputs)(nil).New("ann")
	defer n.Drop()
	side := n.Side(0)
	_, _ = side.Write([]byte("lost with the gap"))
	side.Skip(0)
	side.Skip(83)
	_, _ = side.Write([]byte("after"))
	at := func(cursor int64) OutputReadOutput {
		out, _, err := n.Part(OutputReadInput{Cursor: &cursor}, 1000)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := at(0); out.Text != "after" || out.LostBytes != 100 || out.Cursor != 100 || out.TotalBytes != 105 {
		t.Errorf("%+v", out)
	}
	if out := at(102); out.Text != "ter" || out.LostBytes != 0 {
		t.Errorf("%+v", out)
	}
	line := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10)
	for range 40 {
		_, _ = side.Write(line)
	}
	total := int64(105 + 40*len(line))
	if out := at(0); out.TotalBytes != total || out.LostBytes != total-MaxWhole || out.Text[:4] != string(line[(out.Cursor-105)%16:])[:4] {
		t.Errorf("%d of %d lost: %.20q", out.LostBytes, out.TotalBytes, out.Text)
	}
	n.End("")
	if out := at(total - 3); out.Text != "de\n" || !out.EOF || n.Complete() {
		t.Errorf("%+v", out)
	}
}
