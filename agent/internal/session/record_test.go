package session

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/wire"
)

// Whatever is printed in whatever pieces, the record has its beginning and its end,
// and counts what is missing between them.
func TestRecordTail(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		lines, size, tail := int64(random.IntN(20)), int64(random.IntN(200)), int64(1+random.IntN(200))
		r := newRecord(lines, size, tail, "")
		var all strings.Builder
		for range random.IntN(40) {
			p := strings.Repeat("é€x", random.IntN(8)) + strings.Repeat("\n", random.IntN(2))
			all.WriteString(p)
			r.write(random.IntN(2), []byte(p))
		}
		end, omitted := r.end()
		head, rest := joined(r.output()), joined(end)
		if got := int64(len(head)+len(rest)) + omitted; got != int64(all.Len()) {
			t.Errorf("round %d: %d bytes are told of %d", round, got, all.Len())
		}
		if int64(len(rest)) > tail || omitted > 0 && int64(len(rest)) < tail-3 || !utf8.ValidString(head+rest) {
			t.Errorf("round %d: %d bytes of the end are kept, %d were asked for, %d are missing", round, len(rest), tail, omitted)
		}
		if !r.byLines && (!strings.HasPrefix(all.String(), head) || !strings.HasSuffix(all.String(), rest)) {
			t.Errorf("round %d: the beginning %q and the end %q are not those of %q", round, head, rest, all.String())
		}
	}
	r := newRecord(0, 0, 1<<20, "")
	for i := range 5 * wire.MaxSessionChunks {
		r.write(i%2, []byte("x"))
	}
	if end, omitted := r.end(); len(end) != wire.MaxSessionChunks || omitted != 4*wire.MaxSessionChunks {
		t.Errorf("%d pieces, %d bytes are missing", len(end), omitted)
	}
	r = newRecord(0, 1, 10, "")
	r.write(0, []byte("abc"))
	r.blocked = "key"
	if end, omitted := r.end(); len(end) > 0 || omitted > 0 {
		t.Errorf("what a rule has blocked is told: %v", end)
	}
}

func joined(list []wire.SessionChunk) string {
	var b strings.Builder
	for _, c := range list {
		b.WriteString(c.Data)
	}
	return b.String()
}
