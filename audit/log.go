package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// What a log has where its options do not say.
const (
	DefaultMaxSize = 64 << 20
	DefaultKeep    = 16
)

// The bounds of the options.
const (
	minSize = 2 * MaxRecord
	maxKeep = 256
)

// syncEvery is how long a record that nobody waits for may take to the disk.
const syncEvery = time.Second

// Options of a log. All processes that append to one should have the same.
type Options struct {
	// MaxSize is how large a file may become before the next one is started,
	// in bytes: 64 MiB where it is 0, and 128 KiB at least.
	MaxSize int64
	// Keep is how many files stay, the one that is written to included: 16
	// where it is 0, and 256 at most.
	Keep int
}

// Log appends to the log in a directory. Its methods may be called
// concurrently, also by several processes.
type Log struct {
	path string
	opts Options

	mu    sync.Mutex
	dir   *dir    // nil until the first record
	last  *writer // of the record before, for the next one; nil where there is none
	timer *time.Timer
	group group

	swept   bool
	lost    []uint64 // found in others' marks, and not told yet
	pending []Record // ends that could not be written, the oldest first
}

// At is the log in a directory, which the first record makes.
func At(path string, opts Options) *Log {
	if opts.MaxSize == 0 {
		opts.MaxSize = DefaultMaxSize
	}
	if opts.Keep == 0 {
		opts.Keep = DefaultKeep
	}
	opts.MaxSize, opts.Keep = max(opts.MaxSize, minSize), min(max(opts.Keep, 1), maxKeep)
	return &Log{path: path, opts: opts}
}

// Dir is the log's directory.
func (l *Log) Dir() string { return l.path }

// Exists says whether anything was ever appended.
func (l *Log) Exists() bool {
	_, err := os.Stat(l.path)
	return err == nil
}

// Append writes a record and returns it as it was written. It survives the
// end of this process, and that of the machine a second later.
func (l *Log) Append(ctx context.Context, r Record) (Record, error) {
	if _, err := l.append(ctx, &r, false); err != nil {
		return Record{}, fmt.Errorf("cannot write to the audit log in %s: %w", l.path, err)
	}
	l.syncSoon()
	return r, nil
}

// AppendSync is Append that returns when the record is on the disk. Calls at
// the same time share one wait for it.
func (l *Log) AppendSync(ctx context.Context, r Record) (Record, error) {
	f, err := l.append(ctx, &r, true)
	if err == nil {
		err = l.group.sync(f)
		_ = f.Close()
	}
	if err != nil {
		return Record{}, fmt.Errorf("cannot write to the audit log in %s: %w", l.path, err)
	}
	return r, nil
}

// Lost returns, once, the numbers of the begin records of operations whose process
// has gone without an end on record. They are looked for with the first record that
// this process appends.
func (l *Log) Lost() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = nil
	return lost
}

// Sync returns when the records that were appended before are on the disk.
func (l *Log) Sync() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == nil {
		return nil
	}
	if err := l.syncNewest(); err != nil {
		return fmt.Errorf("cannot write to the audit log in %s: %w", l.path, err)
	}
	return nil
}

// Close waits until all records are on the disk, and tries once more to write the
// ends that could not be written. A process that ends need not call it.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dir == nil {
		return nil
	}
	var err error
	if len(l.pending) > 0 {
		_, err = l.appendLocked(context.Background(), nil, false)
	}
	if l.timer != nil {
		l.timer.Stop()
		err = errors.Join(err, l.syncNewest())
	}
	l.forget()
	l.dir.close()
	l.dir, l.timer = nil, nil
	return err
}

// forget closes the file of the record before.
func (l *Log) forget() {
	if l.last != nil {
		_ = l.last.f.Close()
		l.last = nil
	}
}

// append writes r behind the head of the chain. Who gives the file away has it
// closed by the caller; else it stays open for the next record.
func (l *Log) append(ctx context.Context, r *Record, give bool) (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.appendLocked(ctx, r, give)
	if err != nil && r.Kind == KindEnd && len(l.pending) < maxPending {
		l.pending = append(l.pending, *r)
	}
	return f, err
}

// appendLocked is append for who holds l.mu. Without a record it writes those alone
// that could not be written before.
func (l *Log) appendLocked(ctx context.Context, r *Record, give bool) (*os.File, error) {
	if l.dir == nil {
		d, err := makeDir(l.path)
		if err != nil {
			return nil, err
		}
		l.dir = d
	}
	unlock, err := l.dir.hold(ctx, syscall.LOCK_EX)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if l.last == nil || !l.last.holds() {
		l.forget()
		if l.last, err = l.dir.writer(); err != nil {
			l.last = nil
			return nil, err
		}
	}
	err = l.sweep()
	for err == nil && len(l.pending) > 0 {
		if err = l.put(&l.pending[0]); err == nil {
			l.pending = l.pending[1:]
		}
	}
	if err == nil && r != nil {
		err = l.put(r)
	}
	if err != nil {
		l.forget()
		return nil, err
	}
	f := l.last.f
	if give {
		l.last = nil
	}
	return f, nil
}

// put writes a record, and keeps the marks of what runs.
func (l *Log) put(r *Record) error {
	if r.Kind == KindBegin {
		r.Process = self()
	}
	if err := l.last.put(r, l.opts); err != nil {
		return err
	}
	switch {
	case r.Kind == KindBegin && r.Process != nil:
		l.dir.mark(r)
	case r.Kind == KindEnd && r.Call != 0:
		l.dir.unmark(r.Call)
	}
	return nil
}

// sweep puts on record, once, what processes that are gone have left without an end.
func (l *Log) sweep() error {
	if l.swept {
		return nil
	}
	seqs, marks := l.dir.lost()
	if len(seqs) > 0 {
		if err := l.put(&Record{Kind: KindLost, Lost: seqs}); err != nil {
			return err
		}
		for _, mark := range marks {
			_ = l.dir.root.Remove(mark)
		}
	}
	l.swept, l.lost = true, seqs
	return nil
}

// syncSoon has the records on the disk within syncEvery.
func (l *Log) syncSoon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil || l.dir == nil {
		return
	}
	l.timer = time.AfterFunc(syncEvery, func() {
		l.mu.Lock()
		l.timer = nil
		f, err := l.newest()
		l.mu.Unlock() // nobody's record waits for this
		if err == nil && f != nil {
			_ = f.Sync() // who needs to know of an error waits for a sync of their own
			_ = f.Close()
		}
	})
}

// syncNewest syncs the newest file. Older ones were synced when they were left.
func (l *Log) syncNewest() error {
	f, err := l.newest()
	if err != nil || f == nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return f.Sync()
}

// newest opens the newest file, nil where there is none or the log is closed.
func (l *Log) newest() (*os.File, error) {
	if l.dir == nil {
		return nil, nil
	}
	numbers, err := l.dir.numbers()
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	return l.dir.root.OpenFile(fileName(numbers[len(numbers)-1]), os.O_RDWR, 0)
}

// group lets many who wait for the disk wait once: whoever comes while one
// fsync runs shares the next.
type group struct {
	mu      sync.Mutex
	changed *sync.Cond
	asked   uint64 // tickets given out
	synced  uint64 // tickets whose records are on the disk
	failed  uint64 // tickets whose fsync failed with err
	err     error
	running bool
}

// sync returns when what was written to f before is on the disk. Another
// one's fsync of another file will do: files are synced before they are left.
func (g *group) sync(f *os.File) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.changed == nil {
		g.changed = sync.NewCond(&g.mu)
	}
	g.asked++
	mine := g.asked
	for g.synced < mine {
		switch {
		case mine <= g.failed:
			return g.err // the kernel tells of a loss only once
		case g.running:
			g.changed.Wait()
		default:
			g.lead(f)
		}
	}
	return nil
}

// lead syncs for all who have asked so far.
func (g *group) lead(f *os.File) {
	g.running = true
	covers := g.asked
	g.mu.Unlock()
	err := f.Sync()
	g.mu.Lock()
	g.running = false
	if err == nil {
		g.synced = covers
	} else {
		g.failed, g.err = covers, err
	}
	g.changed.Broadcast()
}
