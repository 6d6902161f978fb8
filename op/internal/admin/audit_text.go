package admin

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/internal/text"
)

func renderAuditRead(w io.Writer, out AuditReadOutput) error {
	for i := range out.Records {
		if err := writeRecord(w, &out.Records[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeRecord writes one line. A record's texts come from anywhere, and may
// hold what a terminal would obey.
func writeRecord(w io.Writer, r *audit.Record) error {
	_, err := io.WriteString(w, text.Visible(recordText(r))+"\n")
	return err
}

// recordText is a record in one line, most important things first.
func recordText(r *audit.Record) string {
	words := []string{r.Time.Format("2006-01-02T15:04:05.000000Z"), strconv.FormatUint(r.Seq, 10), text.OrDash(r.Principal), text.OrDash(r.Op)}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case r.Repair != nil:
		add("repair: %d bytes before this were no record", r.Repair.Bytes)
	case r.Prune != nil:
		add("prune: records up to number %d were removed", r.Prune.Seq)
	case r.Kind == audit.KindLost:
		add("lost: nobody will put on record how these ended: number=%d", r.Lost)
	case r.Kind == audit.KindPlanted:
		add("planted=%q", r.Planted)
		if len(r.Programs) > 0 {
			add("programs=%q", r.Programs)
		}
		if len(r.Unseen) > 0 {
			add("unseen=%q", r.Unseen)
		}
	case r.Kind == audit.KindBegin:
		add("begins")
	default:
		add("%s", text.OrDash(r.Outcome))
	}
	if r.Call != 0 {
		add("call=%d", r.Call)
	}
	if r.Exit != nil {
		add("exit=%d", *r.Exit)
	}
	if r.Outcome != "" {
		add("%s", time.Duration(r.DurationUS)*time.Microsecond)
	}
	if r.Sandbox != "" {
		add("sandbox=%s", r.Sandbox)
	}
	if len(r.Args) > 0 {
		add("args=%s", r.Args)
	}
	for _, d := range r.Denials {
		add("denied=%q", strings.TrimSpace(d.Layer+" "+d.Rule+" "+d.Object))
	}
	if r.Error != "" {
		add("error=%q", r.Error)
	}
	return strings.Join(words, " ")
}

// lineText says where a line is no record, and why.
func lineText(e *audit.Entry) string { return "line " + strconv.Itoa(e.Line) + ": " + e.Err.Error() }
