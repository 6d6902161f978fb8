package admin

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

type AuditReadInput struct {
	Follow    bool    `json:"follow,omitempty" flag:"follow" short:"f" help:"continue with new records as they come, until a signal"`
	Since     string  `json:"since,omitempty" flag:"since" arg:"DUR|TIME" max:"64" help:"only records younger than this duration, 1h30m, or not before this time, 2006-01-02T15:04:05Z"`
	Principal string  `json:"principal,omitempty" flag:"principal" arg:"NAME" max:"128" help:"only the operations of this principal"`
	Op        string  `json:"op,omitempty" flag:"op" arg:"NAME" max:"128" help:"only this operation"`
	Limit     *uint64 `json:"limit,omitempty" flag:"limit" arg:"N" min:"1" max:"10000" help:"only the newest N of these (default: all; in one JSON object 1000)"`
	Raw       bool    `json:"raw,omitempty" flag:"raw" help:"print records as they are in the log, one JSON object per line"`
}

// AuditReadOutput is the output of audit_read, without the records if they went to a stream.
type AuditReadOutput struct {
	Records []audit.Record `json:"records"`
	// Older counts records that match and were left out because of the limit.
	Older int `json:"older"`
	// Unreadable counts lines that are not records.
	Unreadable int `json:"unreadable"`
}

func (AuditReadInput) Desc() op.Desc {
	return op.Desc{
		Name:    "audit_read",
		CLI:     []string{"audit"},
		Summary: "Print the audit log",
		Doc: `Print the audit log, the record of what Paddock was asked to do: when, by whom, with
which arguments, in which sandbox, and how it ended. Values of environment variables
and other secrets are not recorded. Operations that change nothing, such as version
or plan, are recorded only if a log exists already.

The log is in audit/ in the state directory. PADDOCK_AUDIT_SIZE is the size at which
a file of it is rotated (default: 64MiB), and PADDOCK_AUDIT_KEEP is how many files are
kept (default: 16). "paddock audit verify" says whether it was changed.

An operation that cannot be recorded is refused, so that filling the disk does not
make operations invisible; --audit best-effort allows it. Operations that free or end
something, and those that only read, are never refused for this.

Only administrators see the records of others.`,
		Examples: `  paddock audit --since 1h
  paddock audit --follow --op run
  # what was refused: whole operations, and what commands tried
  paddock audit --raw | jq -c 'select(.outcome == "denied" or .denials) | [.op, .error, .denials]'`,
		Local:   true,
		Hints:   op.Hints{ReadOnly: true, Idempotent: true},
		Streams: op.Streams{Out: true},
	}
}

// Bounds of the records in one JSON object.
const (
	answerRecords = 1000
	answerBytes   = 4 << 20
)

func (in AuditReadInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (AuditReadOutput, error) {
	wanted, err := in.filter(env)
	if err != nil {
		return AuditReadOutput{}, err
	}
	if in.Follow && stream.Stdout == nil {
		return AuditReadOutput{}, &paddock.Error{
			Message: "cannot follow the audit log: the output is one JSON object",
			Hint:    "leave out --json; --raw prints an object a line",
		}
	}
	q := auditQuery{wanted: wanted, follow: in.Follow, raw: in.Raw, keep: answerRecords}
	q.out.Records = []audit.Record{}
	if in.Limit != nil {
		q.keep = int(*in.Limit) // 10,000 at most
	}
	q.streams = stream.Stdout != nil && in.Limit == nil
	reader, err := audit.Open(env.Audit.Dir())
	switch {
	case errors.Is(err, fs.ErrNotExist) && !in.Follow:
		return q.out, nil
	case err != nil:
		return q.out, err
	}
	defer func() { _ = reader.Close() }()
	err = q.run(ctx, reader, stream)
	return q.out, err
}

// filter returns the condition for the records, from the input and the principal.
func (in AuditReadInput) filter(env *op.Env) (wanted func(*audit.Record) bool, err error) {
	if env.Audit == nil {
		return nil, noAuditLog()
	}
	if env.Principal == nil {
		return nil, &privilege.Denied{Message: "No context."}
	}
	who := in.Principal
	if !env.Principal.Admin {
		if who != "" && who != env.Principal.Name {
			return nil, &privilege.Denied{Message: "cannot read the records of others: only an administrator may"}
		}
		who = env.Principal.Name
	}
	var since time.Time
	if in.Since != "" {
		if since, err = sinceTime(in.Since); err != nil {
			return nil, err
		}
	}
	return func(r *audit.Record) bool {
		return !r.Time.Before(since) && (who == "" || r.Principal == who) && (in.Op == "" || r.Op == in.Op)
	}, nil
}

// noAuditLog returns the error for a missing audit log: the state directory cannot be used,
// or the door keeps no log.
func noAuditLog() error {
	if _, err := paddock.DefaultStateDir(); err != nil {
		return fmt.Errorf("cannot read the audit log: %w", err)
	}
	return &paddock.Error{Message: "cannot read the audit log: there is none"}
}

// sinceTime parses a duration before now, or a time.
func sinceTime(text string) (time.Time, error) {
	if d, err := policy.ParseDuration(text); err == nil {
		return time.Now().Add(-time.Duration(d)), nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, &policy.FieldError{
			Field: "since", Value: text, Reason: "it is neither a duration nor a time",
			Hint: "write 1h30m, or 2006-01-02T15:04:05Z",
		}
	}
	return at, nil
}

// auditQuery is the state of reading the log.
type auditQuery struct {
	wanted  func(*audit.Record) bool
	follow  bool
	raw     bool
	streams bool // write each record when it is read, instead of collecting the newest
	keep    int
	kept    []audit.Entry
	bytes   int // the size of kept
	out     AuditReadOutput
}

// run reads the existing records, and follows the log if the input asks for that.
func (q *auditQuery) run(ctx context.Context, reader *audit.Reader, stream *op.Stream) error {
	w := bufio.NewWriter(stream.Stdout)
	for {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = q.take(w, e)
		}
		if err != nil {
			return err
		}
	}
	if stream.Stdout == nil {
		for i := range q.kept {
			q.out.Records = append(q.out.Records, q.kept[i].Record)
		}
		return nil
	}
	for i := range q.kept {
		if err := q.write(w, &q.kept[i]); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil || !q.follow {
		return err
	}
	q.kept, q.streams = nil, true
	return q.followLog(ctx, reader, w, stream.Signals)
}

// followLog reads new records until a signal comes, which is not an error, or ctx ends.
func (q *auditQuery) followLog(ctx context.Context, reader *audit.Reader, w *bufio.Writer, signals <-chan string) error {
	following, end := context.WithCancel(ctx)
	defer end()
	go func() {
		for {
			select {
			case name := <-signals:
				if name == "SIGINT" || name == "SIGTERM" || name == "SIGHUP" || name == "SIGQUIT" {
					end()
				}
			case <-following.Done():
				return
			}
		}
	}()
	for {
		e, err := reader.Follow(following)
		switch {
		case err != nil && ctx.Err() == nil && following.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := errors.Join(q.take(w, e), w.Flush()); err != nil {
			return err
		}
	}
}

// take writes an entry of the log, or keeps it.
func (q *auditQuery) take(w io.Writer, e *audit.Entry) error {
	if e.Err != nil {
		q.out.Unreadable++
		if !q.streams || q.raw {
			return nil
		}
		_, err := fmt.Fprintf(w, "%s: line %d: %v\n", e.File, e.Line, e.Err)
		return err
	}
	if !q.wanted(&e.Record) {
		return nil
	}
	if q.streams {
		return q.write(w, e)
	}
	own := *e
	own.Text = bytes.Clone(e.Text)
	q.kept = append(q.kept, own)
	q.bytes += len(own.Text)
	for len(q.kept) > q.keep || q.bytes > answerBytes {
		q.bytes -= len(q.kept[0].Text)
		q.kept = q.kept[1:]
		q.out.Older++
	}
	return nil
}

// write writes a record as it is in the log, or for people.
func (q *auditQuery) write(w io.Writer, e *audit.Entry) error {
	if q.raw {
		_, err := w.Write(e.Text)
		return err
	}
	return writeRecord(w, &e.Record)
}

func (out AuditReadOutput) Render(w io.Writer) error {
	for i := range out.Records {
		if err := writeRecord(w, &out.Records[i]); err != nil {
			return err
		}
	}
	return nil
}

// writeRecord writes a record as one line. The texts in it are untrusted, and may have
// control sequences.
func writeRecord(w io.Writer, r *audit.Record) error {
	_, err := io.WriteString(w, text.Escape(recordText(r))+"\n")
	return err
}

// recordText returns a record as one line, the most important things first.
func recordText(r *audit.Record) string {
	words := []string{r.Time.Format("2006-01-02T15:04:05.000000Z"), strconv.FormatUint(r.Seq, 10), text.OrDash(r.Principal), text.OrDash(r.Op)}
	add := func(format string, args ...any) { words = append(words, fmt.Sprintf(format, args...)) }
	switch {
	case r.Repair != nil:
		add("repair: %d bytes before this were no record", r.Repair.Bytes)
	case r.Prune != nil:
		add("prune: records up to number %d were removed", r.Prune.Seq)
	case r.Kind == audit.KindLost:
		add("lost: operations without an end: number=%d", r.Lost)
	case r.Kind == audit.KindPlanted:
		add("planted=%q", r.Planted)
		if len(r.Programs) > 0 {
			add("programs=%q", r.Programs)
		}
		if len(r.Unseen) > 0 {
			add("unseen=%q", r.Unseen)
		}
		if len(r.NewSockets) > 0 {
			add("new_sockets=%q", r.NewSockets)
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

type AuditVerifyInput struct {
	Head string `json:"head,omitempty" flag:"head" arg:"HASH" max:"64" help:"a hash that was printed earlier, which the log must have"`
}

type AuditVerifyOutput struct {
	audit.Report
}

// ExitStatus returns 0 if the chain of hashes is intact, else 1.
func (out AuditVerifyOutput) ExitStatus() int {
	if out.OK {
		return 0
	}
	return 1
}

func (AuditVerifyInput) Desc() op.Desc {
	return op.Desc{
		Name:    "audit_verify",
		CLI:     []string{"audit", "verify"},
		Summary: "Verify that the audit log was not changed",
		Doc: `Read the whole audit log, and check that no record was changed: each has the hash of
the one before. What was edited, moved, added or removed is reported with its file and
line.

The hash of the last record is printed. Keep it elsewhere, and give it with --head
later: then records that were cut off at the end are detected too, and so is a log
that somebody has written anew.

Operations without an end in the log are listed too: those that are running, and those
that are lost because their process was killed or the disk was full. They do not count
as changes.

Exit status: 0 if nothing was changed, else 1.`,
		Examples: `  paddock audit verify
  paddock audit verify --head "$(cat ~/elsewhere/head)"
  paddock audit verify --json | jq -r .head`,
		Local: true,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (in AuditVerifyInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (AuditVerifyOutput, error) {
	if env.Audit == nil {
		return AuditVerifyOutput{}, noAuditLog()
	}
	head := strings.ToLower(in.Head)
	if head != "" && (len(head) != 64 || strings.Trim(head, "0123456789abcdef") != "") {
		return AuditVerifyOutput{}, &policy.FieldError{
			Field: "head", Value: in.Head, Reason: "it is not a hash of 64 hexadecimal digits",
			Hint: "paddock audit verify prints one",
		}
	}
	report, err := audit.Verify(ctx, env.Audit.Dir(), head)
	return AuditVerifyOutput{report}, err
}

// begun writes a list of operations without an end.
func begun(b *strings.Builder, title, what string, list []audit.Begun, count int) {
	if count == 0 {
		return
	}
	fmt.Fprintf(b, "%-8s %d, %s\n", title, count, what)
	for _, o := range list {
		fmt.Fprintf(b, "%s:%d: %s number %d, %s, %s\n", o.File, o.Line, title, o.Seq, text.OrDash(text.Escape(o.Op)), o.Time.Format("2006-01-02T15:04:05Z"))
	}
	if more := count - len(list); more > 0 {
		fmt.Fprintf(b, "and %d more\n", more)
	}
}

func (out AuditVerifyOutput) Render(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "records  %d in %d files\n", out.Records, out.Files)
	if out.Pruned > 0 {
		fmt.Fprintf(&b, "removed  %d older ones, according to the log\n", out.Pruned)
	}
	if out.Repairs > 0 {
		fmt.Fprintf(&b, "repairs  %d unfinished lines of killed processes, according to the log\n", out.Repairs)
	}
	if out.After > 0 {
		fmt.Fprintf(&b, "since    %d records follow the one that was asked for\n", out.After)
	}
	fmt.Fprintf(&b, "head     %s\n", out.Head)
	for _, p := range out.Problems {
		where := p.File
		if p.Line > 0 {
			where += ":" + strconv.Itoa(p.Line)
		}
		fmt.Fprintf(&b, "%s: %s\n", where, p.What)
	}
	if more := out.Wrong - len(out.Problems); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	begun(&b, "lost", "without an end in the log: their process was killed, or could not write", out.Lost, out.LostCount)
	begun(&b, "unknown", "without an end in the log yet: they may be running, which cannot be seen from here", out.Unknown, out.UnknownCount)
	begun(&b, "running", "that have begun and not ended", out.Running, out.RunningCount)
	verdict := "ok: nothing was changed"
	if out.LostCount > 0 {
		verdict = "ok, but incomplete: nothing was changed; operations without an end: " + strconv.Itoa(out.LostCount)
	}
	if !out.OK {
		verdict = "changed: the record is not what it was"
	}
	_, err := fmt.Fprintf(w, "%s%s\n", b.String(), verdict)
	return err
}
