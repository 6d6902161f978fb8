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
	"github.com/paddock-dev/paddock/policy/specfile"
	"github.com/paddock-dev/paddock/privilege"
)

// Call runs the operation. input is a JSON object; an unknown field, a value
// of the wrong type, and more than [MaxInput] bytes are errors. stream holds
// the door's live streams, nil where it has none.
//
// Whoever asks must hold the privileges that the operation needs
// (*privilege.Denied); that is asked before the input is looked at. Each call
// is put on record, refused ones too. Where that cannot be done before it starts, it
// is refused, unless env.AuditBestEffort says otherwise, or it frees something, or
// reads alone. Where it cannot be done afterwards, an operation that needs a privilege
// is not acknowledged, and of others env.Warn is told.
//
// The output is an object that encodes as JSON. It may come together with an
// error, which then is the more important of the two.
func (o Op) Call(ctx context.Context, env *Env, input []byte, stream *Stream) (any, error) {
	if env == nil {
		env = &Env{}
	}
	if stream == nil {
		stream = &Stream{}
	}
	c := &call{op: o, env: env, from: time.Now()}
	out, err := c.run(ctx, input, stream)
	if out == nil && err != nil && o.Refuse != nil {
		return o.Refuse(err), nil
	}
	return out, err
}

// run asks what Call says, in that order, and does the operation.
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

// call is one call on its way through Call.
type call struct {
	op      Op
	env     *Env
	from    time.Time
	stream  *Stream
	args    json.RawMessage // without secrets; nil where they could not be read
	secrets []string
	needs   privilege.Set  // beside the operation's own, once it is known what is asked for
	begun   uint64         // the number of its begin record, 0 if it has not been written
	spec    *specfile.File // that was named and read, nil where none was
	warned  bool
	lost    bool // what was done could not be put on record, and must not be acknowledged

	mu        sync.Mutex
	planned   string // the id of the sandbox that the call is about to open, until it does
	sandboxes []string
	denied    bool
}

func (c *call) privileged(ctx context.Context) error {
	return privilege.CheckOpened(ctx, c.env.Privileges, c.env.Principal, c.op.Needs)
}

func (c *call) describe(in any) { c.args, c.secrets = describe(in) }

// opened takes note of a sandbox, from any goroutine of the operation.
func (c *call) opened(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sandboxes = append(c.sandboxes, id)
}

// nextID gives the id of the next sandbox that the call opens, "" where it is to have
// a new one.
func (c *call) nextID() (id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, c.planned = c.planned, ""
	return id
}

// refuse takes note that something was denied, and did not fail.
func (c *call) refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = true
}

// durable says whether the call must not be acknowledged before its record is
// on the disk.
func (c *call) durable() bool { return c.op.Needs|c.needs != 0 }

// begin puts on record what is about to be done, so that the record stands
// also when this process is killed. What only reads leaves one record, at its end.
// What cannot be put on record is not done: else whoever fills a disk works unseen.
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
		return c.tellOperator(fmt.Errorf("cannot do %s, which must be put on record: %w", c.op.Name, err))
	case !c.env.AuditBestEffort:
		return c.tellOperator(&paddock.Error{Message: fmt.Sprintf("cannot do %s: it cannot be put on record: %v", c.op.Name, err), Hint: unrecordedHint(err)})
	}
	c.warn(err)
	return nil
}

func unrecordedHint(err error) string {
	if hostpath.Unwritable(err) { // nor could a start list there what commands can write
		return "choose a writable directory with " + paddock.StateDirEnv
	}
	hint := "choose another directory with " + paddock.StateDirEnv + "; with `audit` best-effort operations run without a record"
	if hostpath.Full(err) {
		return "make room there, or " + hint
	}
	return hint
}

// tellOperator warns of an error that only somebody else is told of: who asks below
// a ceiling is not the operator, who alone can mend it.
func (c *call) tellOperator(err error) error {
	if c.env.Ceiling != nil {
		c.warn(err)
	}
	return err
}

func (c *call) noLog() error {
	return &paddock.Error{
		Message: "cannot do " + c.op.Name + ": there is no audit log to put it on record",
		Hint:    "choose a writable directory with " + paddock.StateDirEnv,
	}
}

// ended puts on record how the call ended, and returns err, with what is
// wrong with the record where that matters.
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
	r.Error = c.hideSecrets(r.Error)
	if _, lost := c.append(ctx, r); lost != nil {
		if c.durable() && c.begun > 0 && !c.op.Hints.Frees {
			c.lost = true
			return errors.Join(err, fmt.Errorf("cannot acknowledge %s, which was done: %w", c.op.Name, lost))
		}
		c.warn(lost)
	}
	return err
}

// append writes one record. Its context is the caller's without its end: what
// was interrupted is put on record too.
func (c *call) append(ctx context.Context, r audit.Record) (audit.Record, error) {
	log := c.env.Audit
	if log == nil || c.op.Hints.ReadOnly && !c.durable() && !log.Exists() {
		return audit.Record{}, nil // to look at something leaves nothing behind
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

// lostEnds tells of operations that others have left without an end.
func lostEnds(seqs []uint64) error {
	const shown = 10
	var names []string
	for _, seq := range seqs[:min(len(seqs), shown)] {
		names = append(names, strconv.FormatUint(seq, 10))
	}
	if more := len(seqs) - shown; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return fmt.Errorf("how earlier operations ended is not on record (number %s): their process was killed, or could not write; paddock audit verify lists them", strings.Join(names, ", "))
}

func (c *call) warn(err error) {
	if err != nil && !c.warned && c.env.Warn != nil {
		c.warned = true
		c.env.Warn(err)
	}
}

func (c *call) hideSecrets(text string) string {
	for _, s := range c.secrets {
		if len(s) >= MinSecret {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	return text
}

// outcome puts into r how an operation ended.
func outcome(r *audit.Record, out any, err error, denied bool) {
	r.Outcome = audit.OutcomeOK
	if err != nil {
		r.Error = err.Error()
	} else {
		r.Error = ErrorIn(out)
	}
	for _, d := range denialsIn(out) {
		denied = denied || r.Error != "" && d.Layer == "command"
		r.Denials = append(r.Denials, audit.Denial{Layer: d.Layer, Rule: d.Rule, Object: d.Object})
	}
	switch without := (*privilege.Denied)(nil); {
	case denied || errors.As(err, &without):
		r.Outcome = audit.OutcomeDenied
	case r.Error != "":
		r.Outcome = audit.OutcomeError
	}
	if s, ok := out.(Statuser); ok && err == nil {
		status := s.ExitStatus()
		r.Exit = &status
	}
}

// ErrorIn is the error that an output tells of itself, where a contract has
// errors as answers: the text in its field Error.
func ErrorIn(out any) string {
	text := ""
	switch e := told(out, "Error").(type) {
	case string:
		text = e
	case *string:
		if e != nil {
			text = *e
		}
	}
	return text
}

// denialsIn are the refusals that an output tells of: no operation has to
// remember to put them on record.
func denialsIn(out any) []paddock.Denial {
	denials, _ := told(out, "Denials").([]paddock.Denial)
	return denials
}

// told is what an output has in a field, nil where it has none of that name.
func told(out any, name string) any {
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
