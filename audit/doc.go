// Package audit keeps the record of what Paddock was asked to do: an
// append-only file of JSON lines, chained by hashes, outside every sandbox.
//
//	log := audit.At(dir, audit.Options{})
//	begun, err := log.Append(ctx, audit.Record{Kind: audit.KindBegin, Op: "run"})
//
// A log is a directory of mode 0700 with files of mode 0600 in it:
//
//	audit-00000001.jsonl   records, one a line; the highest number is written to
//	lock                   held while a record is appended
//	begun                  an empty file for each operation that has not ended
//
// The last field of each line, hash, is the SHA-256 of the bytes before it;
// prev is the hash of the line before, also across files. Each append reads
// the head from the end of the newest file, so several processes may append
// at once. A file that is full is followed by another, and the oldest ones
// are removed once a record says that they will be.
//
// A process that is killed may leave a line that ends too early. The next one
// to append keeps it, and writes a record (repair) that says what it found.
//
// An operation has a begin record and an end record. Where the end cannot be written,
// for want of room say, the process tries again with its next record. What a process
// leaves without an end is told by the first one that appends after it ([Log.Lost]),
// on record too (lost), and by Verify.
//
// [Verify] reads a whole log in bounded memory and finds what was edited,
// moved, inserted or removed. Who can write to the directory can also write
// the whole chain anew, and can cut its end: against both, keep a head's hash
// elsewhere and give it to Verify.
package audit
