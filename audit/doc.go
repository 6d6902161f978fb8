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
// inserted or removed. Whoever can write to the directory can also rewrite the whole chain,
// or cut off its end: against both, keep the hash of a head elsewhere and pass it to Verify.
package audit
