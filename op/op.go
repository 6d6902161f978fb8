// Package op is the one table of operations: what Paddock can be asked to do,
// with the fields of each question and answer. Every door (the command line,
// and later servers) is a rendering of this table, so an operation appears
// behind all of them at once, with the same fields and the same errors.
//
// An operation is a [Desc], a function from an input struct to an output
// struct, and a rendering of the output for people. [Op.Call] is the only way
// in: it asks for the privilege, decodes the input strictly, and puts the call
// on record. The tags of the input struct say how doors ask for its fields;
// [Op.Fields] and [Op.InputSchema] read them. A sandbox comes from [Env.Open]
// alone, which knows the most that the caller's may be.
//
// Files are named after the operations: run.go, plan.go, version.go, doctor.go.
package op

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/paddock-dev/paddock/privilege"
)

// Desc describes an operation to doors and to people.
type Desc struct {
	// Name is the operation's name behind every door.
	Name string
	// CLI is the path of the command that asks for it; where it has several
	// words, all but the last are a group of [Groups] or another operation.
	CLI []string
	// Summary is one line; Doc is the manual, in plain text.
	Summary, Doc string
	// Examples are command lines with a comment each.
	Examples string
	// Description and Schema are what programs are told of the operation and of its
	// input (a JSON Schema), only where a contract fixes them.
	Description string
	Schema      json.RawMessage
	// Needs are the privileges that its principal must hold.
	Needs privilege.Set
	// Lasting operations are for doors that outlive a call ([Env.Sessions]); they
	// have no command of their own.
	Lasting bool
	// Local operations are for the terminal of this host alone: no other door has them.
	Local bool
	// Opens says that it opens a sandbox of its own, whose id its first record has.
	Opens bool
	// Alias is another name of its command.
	Alias string
	// Profile is the smallest set of tools in which models are offered it.
	Profile Profile
	Hints   Hints
	Streams Streams
}

// Hints tell a door, and whoever is behind it, what to expect.
type Hints struct {
	// ReadOnly operations change nothing.
	ReadOnly bool
	// Destructive operations may change or remove what they are pointed at.
	Destructive bool
	// Idempotent operations have, done twice, the effect of done once.
	Idempotent bool
	// LongRunning operations take as long as what they start.
	LongRunning bool
	// Control operations look at what runs, or end it, in little time: a door lets
	// them in also where it is busy.
	Control bool
	// Frees operations end what runs, or give back what is used. They are done also
	// where they cannot be put on record.
	Frees bool
	// OpenWorld operations reach what is outside the sandbox and its workspace.
	OpenWorld bool
}

// Streams says which live streams an operation can use.
type Streams struct {
	In, Out bool
	// Lines says that it can read and write JSON objects, one a line, and then
	// has no other output.
	Lines bool
	// Interrupts says that SIGINT ends what runs inside, and never the operation.
	Interrupts bool
}

// Op is one row of the table.
type Op struct {
	Desc
	in     reflect.Type
	out    reflect.Type
	decode func(input []byte) (any, error)
	do     func(ctx context.Context, env *Env, in any, stream *Stream) (any, error)
	render func(w io.Writer, out any) error
	// Refuse makes an answer of what kept the operation from being done, where
	// a contract has errors as answers; nil else.
	Refuse func(err error) any
}

// Operation is the input struct of an operation: its fields are what is asked for, and its
// methods describe the operation and run it.
type Operation[O any] interface {
	Desc() Desc
	Do(ctx context.Context, env *Env, stream *Stream) (O, error)
}

// Output is what an operation returns. Render writes it for people. Beside it an output may
// be a [Teller], a [Failer] or a [Statuser].
type Output interface {
	Render(w io.Writer) error
}

// Of returns the row of the operation whose input struct is I: op.Of[exec.RunInput]().
func Of[I Operation[O], O Output]() Op {
	var in I
	return New(in.Desc(), func(ctx context.Context, env *Env, in I, stream *Stream) (O, error) {
		return in.Do(ctx, env, stream)
	}, func(w io.Writer, out O) error { return out.Render(w) })
}

// New returns an operation of functions, where the input's own methods do not do: what runs
// it, and what writes its output for people. I must be a struct.
func New[I, O any](
	desc Desc,
	do func(context.Context, *Env, I, *Stream) (O, error),
	render func(io.Writer, O) error,
) Op {
	return Op{
		Desc: desc,
		in:   reflect.TypeFor[I](),
		out:  reflect.TypeFor[O](),
		decode: func(input []byte) (any, error) {
			var in I
			err := decode(desc.Name, input, &in)
			return in, err
		},
		do: func(ctx context.Context, env *Env, in any, stream *Stream) (any, error) {
			i, ok := in.(I)
			if !ok {
				return nil, fmt.Errorf("cannot use %T as the input of %s", in, desc.Name)
			}
			return do(ctx, env, i, stream)
		},
		render: func(w io.Writer, out any) error {
			o, ok := out.(O)
			if !ok {
				return fmt.Errorf("cannot render %T as the output of %s", out, desc.Name)
			}
			return render(w, o)
		},
	}
}

// Check reports what is wrong with an input, as Call does before it starts. Nothing is
// done.
func (o Op) Check(input []byte) error {
	_, err := o.decode(input)
	return err
}

// AnsweringErrors returns the operation with an answer, made by refuse, in place of each
// error that keeps it from being done: where a contract has errors as answers.
func (o Op) AnsweringErrors(refuse func(err error) any) Op {
	o.Refuse = refuse
	return o
}

// Render writes what Call returned as people want to read it.
func (o Op) Render(w io.Writer, out any) error { return o.render(w, out) }

// Statuser is an output that says with which status a program should exit.
type Statuser interface {
	ExitStatus() int
}

// Failer is an output that tells of a failure in its fields: what a contract has as
// an answer is an error to a door that knows one from the other.
type Failer interface {
	Failed() bool
}

// The statuses of a program that runs commands, as shells and timeout(1) use them.
const (
	StatusTimedOut = 124
	StatusFailed   = 125 // it could not be done
	StatusRefused  = 126 // rules, or the kernel, say that it must not be executed
	StatusNotFound = 127
	StatusSignal   = 128 // plus the signal's number
)

// Profile is a set of tools for models: one that has fewer of them chooses better.
// Of an operation it says in which of the smaller sets it is, by bits.
type Profile uint8

// The profiles.
const (
	ProfileFull      Profile = 0 // all that the principal may use
	ProfileWorkspace Profile = 1 // work in one workspace: commands, files, services, shells that stay
	ProfileRun       Profile = 2 // one-shot commands alone, each in a sandbox of its own
)

// Profiles are all of them, the smallest first.
func Profiles() []Profile { return []Profile{ProfileRun, ProfileWorkspace, ProfileFull} }

// Offers says whether an operation of these profiles is in p.
func (p Profile) Offers(of Profile) bool { return p == ProfileFull || of&p != 0 }

// String names the profile; of several, all.
func (p Profile) String() string {
	var names []string
	if p&ProfileRun != 0 {
		names = append(names, "run")
	}
	if p&ProfileWorkspace != 0 {
		names = append(names, "workspace")
	}
	if len(names) == 0 {
		return "full"
	}
	return strings.Join(names, ", ")
}
