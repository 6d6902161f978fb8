package admin

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// AuditVerifyInput asks whether the log was changed.
type AuditVerifyInput struct {
	Head string `json:"head,omitempty" flag:"head" arg:"HASH" max:"64" help:"a hash that was printed earlier, and must be found again"`
}

// AuditVerifyOutput is what was found.
type AuditVerifyOutput struct {
	audit.Report
}

// ExitStatus is 0 only where the chain holds.
func (o AuditVerifyOutput) ExitStatus() int {
	if o.OK {
		return 0
	}
	return 1
}

func AuditVerifyOp() op.Op {
	return op.New(op.Desc{
		Name:    "audit_verify",
		CLI:     []string{"audit", "verify"},
		Summary: "Say whether the record of what Paddock was asked to do was changed",
		Doc: `Read the whole record of what Paddock was asked to do, and say whether each line
is what it was and where it was: each holds the hash of the one before. What was
edited, moved, added or removed is named with its file and line.

The hash of the last record is printed. Keep it elsewhere, and give it with
--head later: then records that were cut off at the end are missed too, and a
log that somebody wrote anew is told from this one.

Operations that have begun and have no end on record are named, too: those that
run, and those that are lost, because their process was killed or the disk was
full. They do not count as changes.

Exit status: 0 where nothing was changed, else 1.`,
		Examples: `  paddock audit verify
  paddock audit verify --head "$(cat ~/elsewhere/head)"
  paddock audit verify --json | jq -r .head`,
		Local: true,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}, auditVerify, renderAuditVerify)
}

func auditVerify(ctx context.Context, env *op.Env, in AuditVerifyInput, _ *op.Stream) (AuditVerifyOutput, error) {
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

// begun tells of operations without an end.
func begun(b *strings.Builder, title, what string, list []audit.Begun, count int) {
	if count == 0 {
		return
	}
	fmt.Fprintf(b, "%-8s %d, %s\n", title, count, what)
	for _, o := range list {
		fmt.Fprintf(b, "%s:%d: %s number %d, %s, %s\n", o.File, o.Line, title, o.Seq, text.OrDash(text.Visible(o.Op)), o.Time.Format("2006-01-02T15:04:05Z"))
	}
	if more := count - len(list); more > 0 {
		fmt.Fprintf(b, "and %d more\n", more)
	}
}

func renderAuditVerify(w io.Writer, out AuditVerifyOutput) error {
	var b strings.Builder
	fmt.Fprintf(&b, "records  %d in %d files\n", out.Records, out.Files)
	if out.Pruned > 0 {
		fmt.Fprintf(&b, "removed  %d older ones, as the log itself tells\n", out.Pruned)
	}
	if out.Repairs > 0 {
		fmt.Fprintf(&b, "repairs  %d unfinished lines of killed processes, as the log itself tells\n", out.Repairs)
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
	begun(&b, "lost", "whose end is not on record: their process was killed, or could not write", out.Lost, out.LostCount)
	begun(&b, "unknown", "whose end is not on record yet: whether they run cannot be told from here", out.Unknown, out.UnknownCount)
	begun(&b, "running", "that have begun and not ended", out.Running, out.RunningCount)
	verdict := "ok: nothing was changed"
	if out.LostCount > 0 {
		verdict = "ok, but not whole: nothing was changed, and of operations whose end is not on record there are " + strconv.Itoa(out.LostCount)
	}
	if !out.OK {
		verdict = "changed: the record is not what it was"
	}
	_, err := fmt.Fprintf(w, "%s%s\n", b.String(), verdict)
	return err
}
