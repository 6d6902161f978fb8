package proxy

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/egress"
	"github.com/paddock-dev/paddock/internal/text"
)

const (
	mostRecords = 4096
	// Names that commands asked for are printed up to this length, in bytes.
	mostRecordText = 256
)

// records has the last records, and totals. A denial, or a use of the SSH agent, that equals the
// record before it is counted in that one, unless somebody has read it.
type records struct {
	mu      sync.Mutex
	kept    []egress.Record // a ring: number n is at (n-1) % mostRecords
	last    uint64
	read    uint64        // the last one that somebody has read
	changed chan struct{} // closed when there are new ones
	state   egress.State  // the totals
}

func newRecords() *records {
	return &records{changed: make(chan struct{})}
}

// add keeps a record, and sets its number and time.
func (r *records) add(record egress.Record) {
	// Letters of other scripts look like those of the name that was meant.
	host := strconv.QuoteToASCII(record.Host)
	record.Host = text.Truncate(host[1:len(host)-1], mostRecordText)
	record.Method, record.Path = text.Escape(record.Method), text.Truncate(text.Escape(record.Path), mostRecordText)
	record.Reason = text.Truncate(text.Escape(record.Reason), 2*mostRecordText)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Sent += record.Sent
	r.state.Received += record.Received
	if record.Kind == egress.KindDenied {
		r.state.Denied++
	}
	if record.Kind == egress.KindDenied || record.Kind == egress.KindSSH {
		if r.last > r.read {
			before := &r.kept[(r.last-1)%mostRecords]
			if before.Kind == record.Kind && before.Host == record.Host && before.Port == record.Port && before.Rule == record.Rule && before.Key == record.Key && before.Method == record.Method && before.Path == record.Path &&
				(before.Reason == record.Reason || record.Kind == egress.KindDenied && record.Rule != egress.RuleSSHAgent) {
				before.Count = max(before.Count, 1) + 1
				return
			}
		}
	}
	r.last++
	record.Seq, record.Time = r.last, time.Now()
	if len(r.kept) < mostRecords {
		r.kept = append(r.kept, record)
	} else {
		r.kept[(r.last-1)%mostRecords] = record
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// after returns at most 256 of the records after a number, and what is closed when there are
// more.
func (r *records) after(seq uint64) ([]egress.Record, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seq = max(seq, r.last-uint64(len(r.kept)))
	var found []egress.Record
	for ; seq < r.last && len(found) < 256; seq++ {
		found = append(found, r.kept[seq%mostRecords])
	}
	r.read = max(r.read, min(seq, r.last))
	return found, r.changed
}

// each calls f with the records after a number that there are at the moment: commands may make
// new ones faster than they are read. With follow it goes on with those until ctx ends.
func (r *records) each(ctx context.Context, seq uint64, follow bool, f func(egress.Record) error) error {
	end := r.totals().Last
	for {
		found, changed := r.after(seq)
		for _, record := range found {
			if !follow && record.Seq > end {
				return nil
			}
			if err := f(record); err != nil {
				return err
			}
			seq = record.Seq
		}
		switch {
		case !follow && seq >= end:
			return nil
		case len(found) > 0:
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// connected counts a connection.
func (r *records) connected() {
	r.mu.Lock()
	r.state.Connections++
	r.mu.Unlock()
}

// totals returns a state with the totals.
func (r *records) totals() egress.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	state := r.state
	state.Last, state.Lost = r.last, r.last-uint64(len(r.kept))
	return state
}
