// Package audit records what Paddock was asked to do, in an append-only log of JSON
// lines that are chained by hashes, outside every sandbox.
//
//	log := audit.At(dir, audit.Options{})
//	begun, err := log.Append(ctx, audit.Record{Kind: audit.KindBegin, Op: "run"})
//
// A log is a directory of mode 0700 with files of mode 0600 in it:
//
//	audit-00000001.jsonl   records, one per line; the highest number is appended to
//	lock                   held while a record is appended
//	begun                  an empty file for each operation that has not ended
//
// The last field of each line, hash, is the SHA-256 of the bytes before it; prev is the
// hash of the line before, also across files. Several processes may append at the same
// time: each one checks whether its cached head of the chain is still the end of the newest
// file, and reads it from there if not. When a file is full, the next one is started, and
// the oldest ones are removed after a record says so.
//
// A process that is killed may leave an incomplete line. The next append keeps it, and
// writes a repair record that describes it.
//
// An operation has a begin record and an end record. If the end cannot be written, because
// the disk is full for example, the process tries again with its next record. Operations of
// dead processes without an end are reported by the first process that appends after them,
// in a lost record and by [Log.Lost], and by Verify.
//
// [Verify] reads a whole log in bounded memory and finds records that were edited, moved,
// inserted or removed. A process that can write to the directory can also rewrite the whole
// chain, or cut off its end: against both, keep the hash of a head elsewhere and pass it to Verify.
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

// The defaults of [Options].
const (
	DefaultMaxSize = 64 << 20
	DefaultKeep    = 16
)

// The bounds of the options.
const (
	minSize = 2 * MaxRecord
	maxKeep = 256
)

// syncEvery bounds how long it takes until a record is on the disk if no caller waits for that.
const syncEvery = time.Second

// Options of a log. All processes that append to one should have the same.
type Options struct {
	// MaxSize is how large a file may become before the next one is started, in bytes. The
	// default is 64 MiB, the minimum 128 KiB.
	MaxSize int64
	// Keep is how many files are kept, including the one that is appended to. The default
	// is 16, the maximum 256.
	Keep int
}

// Log appends to the log in a directory. Its methods may be called
// concurrently, also by several processes.
type Log struct {
	path string
	opts Options

	mu     sync.Mutex
	dir    *dir    // nil until the first record
	writer *writer // of the last record, which caches the head of the chain; may be nil
	timer  *time.Timer
	group  group

	swept   bool
	lost    []uint64 // found in the marks of other processes, for Lost to return
	pending []Record // ends that could not be written, the oldest first
}

// At returns the log in a directory, which the first record creates.
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

// Dir returns the log's directory.
func (l *Log) Dir() string { return l.path }

// Exists reports whether anything was ever appended.
func (l *Log) Exists() bool {
	_, err := os.Stat(l.path)
	return err == nil
}

// Append writes a record and returns it as it was written. The record survives a crash of
// this process, and one second later a crash of the machine.
func (l *Log) Append(ctx context.Context, r Record) (Record, error) {
	if _, err := l.append(ctx, &r, false); err != nil {
		return Record{}, fmt.Errorf("cannot write to the audit log in %s: %w", l.path, err)
	}
	l.syncSoon()
	return r, nil
}

// AppendSync is [Log.Append], but returns when the record is on the disk. Concurrent calls
// share one fsync.
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

// Lost returns the seqs of begin records of operations whose process is gone and whose end
// was not recorded. They are looked for when this process appends its first record, and
// returned once.
func (l *Log) Lost() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := l.lost
	l.lost = nil
	return lost
}

// Sync waits until all records that were appended so far are on the disk.
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

// Close waits until all records are on the disk, and tries once more to write the ends that
// could not be written. A process that exits need not call it.
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
	l.closeWriter()
	l.dir.close()
	l.dir, l.timer = nil, nil
	return err
}

// closeWriter closes the file of the last record, and forgets the head of the chain.
func (l *Log) closeWriter() {
	if l.writer != nil {
		_ = l.writer.f.Close()
		l.writer = nil
	}
}

// append appends r to the chain. With give, the caller gets the file and must close it;
// otherwise it stays open for the next record.
func (l *Log) append(ctx context.Context, r *Record, give bool) (*os.File, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.appendLocked(ctx, r, give)
	if err != nil && r.Kind == KindEnd && len(l.pending) < maxPending {
		l.pending = append(l.pending, *r)
	}
	return f, err
}

// appendLocked is append with l.mu held. If r is nil, it only writes the records that could
// not be written before.
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
	if l.writer == nil || !l.writer.current() {
		l.closeWriter()
		if l.writer, err = l.dir.newWriter(); err != nil {
			l.writer = nil
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
		l.closeWriter()
		return nil, err
	}
	f := l.writer.f
	if give {
		l.writer = nil
	}
	return f, nil
}

// put writes a record, and makes or removes the mark of an operation that runs.
func (l *Log) put(r *Record) error {
	if r.Kind == KindBegin {
		r.Process = self()
	}
	if err := l.writer.put(r, l.opts); err != nil {
		return err
	}
	switch {
	case r.Kind == KindBegin && r.Process != nil:
		l.dir.mark(r)
	case r.Kind == KindEnd && r.Call != 0:
		if p := self(); p != nil && l.dir.ownBegun() {
			_ = l.dir.root.Remove(p.markName(r.Call)) // there may be none
		}
	}
	return nil
}

// sweep records, once, the operations that dead processes left without an end.
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

// syncSoon syncs the records within syncEvery.
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
		l.mu.Unlock() // records are not held up by the fsync
		if err == nil && f != nil {
			_ = f.Sync() // callers that need to know of an error use AppendSync
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

// newest opens the newest file. It returns nil if there is none, or the log is closed.
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

// group shares fsyncs among concurrent callers: those that come while one runs share the
// next one.
type group struct {
	mu      sync.Mutex
	changed *sync.Cond
	asked   uint64 // tickets given out
	synced  uint64 // tickets whose records are on the disk
	failed  uint64 // tickets whose fsync failed with err
	err     error
	running bool
}

// sync waits until what was written to f so far is on the disk. An fsync of a newer file by
// another caller is enough: a file is synced before the next one is started.
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
			return g.err // the kernel reports a lost write only once
		case g.running:
			g.changed.Wait()
		default: // sync for all that have asked so far
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
	}
	return nil
}
