package proxy

import (
	"strconv"
	"testing"

	"github.com/paddock-dev/paddock/egress"
)

// TestLogEnds: the log ends although commands make records as fast as they are read.
func TestLogEnds(t *testing.T) {
	r := newRecords()
	add := func(n int) { r.add(egress.Record{Kind: egress.KindDenied, Host: "n" + strconv.Itoa(n) + ".test"}) }
	for n := range 300 {
		add(n)
	}
	seen := 0
	err := r.each(t.Context(), 10, false, func(record egress.Record) error {
		if seen++; seen > 1000 {
			t.Fatal("it goes on with records that were made after it began")
		}
		if want := uint64(10 + seen); record.Seq != want {
			t.Fatalf("record %d, want %d", record.Seq, want)
		}
		add(300 + seen)
		return nil
	})
	if err != nil || seen != 290 {
		t.Errorf("%d records, want 290; error %v", seen, err)
	}
	if err := r.each(t.Context(), 1<<40, false, func(record egress.Record) error { t.Error(record); return nil }); err != nil {
		t.Error(err)
	}
}
