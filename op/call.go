package op

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/audit"
	"github.com/paddock-dev/paddock/backend"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
	"github.com/paddock-dev/paddock/privilege"
	"github.com/paddock-dev/paddock/privilege/token"
)

// Call runs the operation. input is a JSON object; an unknown field, a value of the wrong
// type, and more than [MaxInput] bytes are errors. A field that is null is absent. stream has
// the door's live streams, or is nil.
//
// The principal must hold the privileges that the operation needs; otherwise the error is
// a *privilege.Denied. Privileges are checked before the input. Each call is recorded in
// the audit log, refused ones too. If the record cannot be written before the operation
// starts, the call is refused, unless env.AuditBestEffort is set or the operation only
// reads or frees something. If the record cannot be written afterwards, an operation that
// needs a privilege returns an error instead of its output, and for others env.Warn is
// called.
//
// An operation that panics is recorded as failed, and the panic goes on: doors that serve others
// make an error of it.
//
// The output is an object that encodes as JSON. If there is an error as well, the error is
// the more important of the two.
func (o Op) Call(ctx context.Context, env *Env, input []byte, stream *Stream) (any, error) {
	if env == nil {
		env = &Env{}
	}
	if stream == nil {
		stream = &Stream{}
	}
	c := &call{op: o, env: env, from: time.Now()}
	out, err := c.run(ctx, input, stream)
	if out == nil && err != nil && o.refuse != nil {
		return o.refuse(err), nil
	}
	return out, err
}

// run checks, records and runs the operation, in the order that Call documents.
func (c *call) run(ctx context.Context, input []byte, stream *Stream) (any, error) {
	if err := c.privileged(ctx); err != nil {
		c.refuse()
		if in, err := c.op.decode(input); err == nil {
			c.describe(in)
		}
		return nil, c.ended(ctx, nil, err)
	}
	in, err := c.op.decode(input)
	if unknown := (*unknownFieldError)(nil); errors.As(err, &unknown) {
		err = &paddock.Error{Message: err.Error(), Hint: unknown.hint(c.env.Ceiling)}
	}
	if err != nil {
		return nil, c.ended(ctx, nil, err)
	}
	c.describe(in)
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	defer c.recordPanic(ctx)
	own := *c.env
	own.Call, c.stream = c, stream
	out, err := c.op.do(ctx, &own, in, stream)
	LocateFields(err, input, c.spec)
	err = c.ended(ctx, out, err)
	if c.lost {
		out = nil
	}
	return out, err
}

// recordPanic records a panic as the end of the call, and lets it go on. It must be deferred.
func (c *call) recordPanic(ctx context.Context) {
	if p := recover(); p != nil {
		_ = c.ended(ctx, nil, fmt.Errorf("cannot finish %s: it panicked", c.op.Name)) // nothing is acknowledged
		panic(p)
	}
}

// call is the state of one call of an operation.
type call struct {
	op      Op
	env     *Env
	from    time.Time
	stream  *Stream
	args    json.RawMessage // without secrets; nil if the input could not be decoded
	secrets []string
	needs   privilege.Set  // in addition to the operation's own, known once the input is decoded
	begun   uint64         // the number of its begin record, 0 if none was written
	spec    *specfile.File // the spec file that the call has read, or nil
	project string         // its path if it is the workspace's own, else ""
	warned  bool
	lost    bool // the end could not be recorded, so the output must not be returned

	mu        sync.Mutex
	planned   string // the id for the next sandbox that the call opens, "" once it is used
	sandboxes []string
	denied    bool
}

func (c *call) privileged(ctx context.Context) error {
	return privilege.CheckOpened(ctx, c.env.Privileges, c.env.Principal, c.op.Needs)
}

func (c *call) describe(in any) { c.args, c.secrets = describe(in) }

// opened adds a sandbox to the call's record. It may be called from any goroutine.
func (c *call) opened(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sandboxes = append(c.sandboxes, id)
}

// nextID returns the id for the sandbox that the call opens, which the begin record has
// already. It returns "" for further sandboxes.
func (c *call) nextID() (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, c.planned = c.planned, ""
	return id
}

// refuse marks the call as denied, as opposed to failed.
func (c *call) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = true
}

// durable reports whether the record must be on the disk before the call returns.
func (c *call) durable() bool { return c.op.Needs|c.needs != 0 }

// begin records the start of the operation, so that the record exists even if this process
// is killed. An operation that only reads has one record, at its end. An operation that
// cannot be recorded is refused; otherwise filling the disk would make operations invisible.
func (c *call) begin(ctx context.Context) error {
	if c.env.Audit == nil && c.durable() {
		return c.noLog()
	}
	if c.op.Hints.ReadOnly && !c.durable() {
		return nil
	}
	if c.op.Opens {
		c.planned = backend.NewID()
	}
	r, err := c.append(ctx, audit.Record{Kind: audit.KindBegin, Args: c.args, Sandbox: c.planned})
	switch {
	case err == nil:
		c.begun = r.Seq
		return nil
	case c.op.Hints.Frees:
	case c.durable():
		return c.tellOperator(fmt.Errorf("cannot do %s, which must be recorded: %w", c.op.Name, err))
	case !c.env.AuditBestEffort:
		return c.tellOperator(&paddock.Error{Message: fmt.Sprintf("cannot do %s: it cannot be recorded: %v", c.op.Name, err), Hint: unrecordedHint(err)})
	}
	c.warn(err)
	return nil
}

func unrecordedHint(err error) string {
	if hostpath.Unwritable(err) { // sandboxes cannot start either without a state directory
		return "choose a writable directory with " + paddock.StateDirEnv
	}
	hint := "choose another directory with " + paddock.StateDirEnv + "; with `audit` best-effort operations run without a record"
	if hostpath.Full(err) {
		return "make room there, or " + hint
	}
	return hint
}

// tellOperator also warns the operator of an error if the caller is somebody else, which a
// ceiling shows: only the operator can repair the log.
func (c *call) tellOperator(err error) error {
	if c.env.Ceiling != nil {
		c.warn(err)
	}
	return err
}

// noLog returns the error of an operation that needs a record where there is no log. It says why no
// state directory can have one.
func (c *call) noLog() error {
	if _, err := paddock.DefaultStateDir(); err != nil {
		return fmt.Errorf("cannot do %s, which must be recorded: %w", c.op.Name, err)
	}
	return &paddock.Error{
		Message: "cannot do " + c.op.Name + ": there is no audit log to record it in",
		Hint:    "choose a writable directory with " + paddock.StateDirEnv,
	}
}

// ended records how the call ended. It returns err, joined with the error of the record if
// the call must fail because of it.
func (c *call) ended(ctx context.Context, out any, err error) error {
	r := audit.Record{Kind: audit.KindEnd, Call: c.begun, DurationUS: time.Since(c.from).Microseconds()}
	if c.begun == 0 {
		r.Kind, r.Args = audit.KindCall, c.args
	}
	c.mu.Lock()
	r.Sandbox = strings.Join(c.sandboxes, " ")
	denied := c.denied
	c.mu.Unlock()
	outcome(&r, out, err, denied)
	for _, s := range c.secrets {
		if len(s) >= MinSecret {
			r.Error = strings.ReplaceAll(r.Error, s, redacted)
		}
	}
	if _, lost := c.append(ctx, r); lost != nil {
		if c.durable() && c.begun > 0 && !c.op.Hints.Frees {
			c.lost = true
			return errors.Join(err, fmt.Errorf("cannot acknowledge %s, which was done: %w", c.op.Name, lost))
		}
		c.warn(lost)
	}
	return err
}

// append writes one record. It ignores the cancellation of ctx: interrupted calls are
// recorded too.
func (c *call) append(ctx context.Context, r audit.Record) (audit.Record, error) {
	log := c.env.Audit
	if log == nil || c.op.Hints.ReadOnly && !c.durable() && !log.Exists() {
		return audit.Record{}, nil // reading does not create a log
	}
	r.Op = c.op.Name
	if c.env.Principal != nil {
		r.Principal = c.env.Principal.Name
	}
	var err error
	if c.durable() {
		r, err = log.AppendSync(context.WithoutCancel(ctx), r)
	} else {
		r, err = log.Append(context.WithoutCancel(ctx), r)
	}
	if lost := log.Lost(); len(lost) > 0 && c.env.Warn != nil {
		c.env.Warn(lostEnds(lost))
	}
	return r, err
}

// lostEnds returns the warning about operations of other processes that have no end record.
func lostEnds(seqs []uint64) error {
	const shown = 10
	var names []string
	for _, seq := range seqs[:min(len(seqs), shown)] {
		names = append(names, strconv.FormatUint(seq, 10))
	}
	if more := len(seqs) - shown; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("earlier operations have no end in the audit log (number %s): their process was killed, or could not write; paddock audit verify lists them", strings.Join(names, ", "))
}

func (c *call) warn(err error) {
	if err != nil && !c.warned && c.env.Warn != nil {
		c.warned = true
		c.env.Warn(err)
	}
}

// RefusedError is the error of a command that the rules for commands refuse. It is on record as
// denied.
type RefusedError struct{ Err error }

// Error returns the text of the error.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e *RefusedError) Unwrap() error { return e.Err }

// outcome sets in r how the operation ended.
func outcome(r *audit.Record, out any, err error, denied bool) {
	r.Outcome = audit.OutcomeOK
	if err != nil {
		r.Error = err.Error()
	} else {
		r.Error = ErrorIn(out)
	}
	denials, _ := outputField(out, "Denials").([]paddock.Denial) // so that no operation has to record them itself
	for _, d := range denials {
		denied = denied || r.Error != "" && d.Layer == "command"
		r.Denials = append(r.Denials, audit.Denial{Layer: d.Layer, Rule: d.Rule, Object: d.Object})
	}
	switch without := (*privilege.Denied)(nil); {
	case denied, errors.As(err, &without), errors.As(err, new(*RefusedError)):
		r.Outcome = audit.OutcomeDenied
	case r.Error != "":
		r.Outcome = audit.OutcomeError
	}
	if s, ok := out.(Statuser); ok && err == nil {
		status := s.ExitStatus()
		r.Exit = &status
	}
}

// ErrorIn returns the text in an output's field Error, which outputs have whose contract
// has errors as answers.
func ErrorIn(out any) string {
	text := ""
	switch e := outputField(out, "Error").(type) {
	case string:
		text = e
	case *string:
		if e != nil {
			text = *e
		}
	}
	return text
}

// outputField returns the value of an output's field, or nil if it has no such field.
func outputField(out any, name string) any {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Struct {
		return nil
	}
	f := v.FieldByName(name)
	if !f.IsValid() || !f.CanInterface() {
		return nil
	}
	return f.Interface()
}

// Flatten returns the errors that are joined in err. Each has a text and a hint of its own.
func Flatten(err error) []error {
	several, ok := err.(interface{ Unwrap() []error }) // the join itself, not one inside
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range several.Unwrap() {
		all = append(all, Flatten(e)...)
	}
	return all
}

// HintOf returns what an error says to do about it, "" if nothing.
func HintOf(err error) string {
	field, start, own := (*policy.FieldError)(nil), (*backend.StartError)(nil), (*paddock.Error)(nil)
	denied, tokens := (*privilege.Denied)(nil), (*token.UnavailableError)(nil)
	var fixed interface{ Remedy() string } // an error whose text a contract fixes
	switch {
	case errors.As(err, &tokens):
		return tokens.Hint
	case errors.As(err, &denied):
		return denied.Hint
	case errors.As(err, &field):
		return field.Hint
	case errors.As(err, &start):
		return start.Hint
	case errors.As(err, &own):
		return own.Hint
	case errors.As(err, &fixed):
		return fixed.Remedy()
	}
	return ""
}
