// Package op defines what an operation is, and the one way to call it. The command line
// and the servers ("doors") are generated from the same table of operations (op/table), so
// an operation has the same fields and the same errors behind all of them.
//
// An operation is an input struct with the methods of [Operation], and an output struct
// with a Render method. [Of] makes a row of the table from the two types. The tags of the
// input's fields are flags, help texts and bounds; [Op.Fields] and [Op.InputSchema] read
// them. [Op.Call] is the only way to run an operation: it checks privileges, decodes the
// input strictly and writes the audit record. An operation gets sandboxes only from
// [Env.Open] and functions that use it, which apply the caller's ceiling.
//
// The operations are in op/internal, each in a file of its name.
package op

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/privilege"
)

// Desc describes an operation.
type Desc struct {
	// Name is the operation's name behind every door.
	Name string
	// CLI is the path of its command. If it has several words, all but the last are a
	// group of op/table or another operation.
	CLI []string
	// Summary is one line; Doc is the manual, in plain text.
	Summary, Doc string
	// Examples are command lines, each with a comment.
	Examples string
	// Description and Schema replace, for programs, the description made from Doc and the
	// schema made from the input struct. Only operations with a contract have them.
	Description string
	Schema      json.RawMessage
	// Needs are the privileges that the principal must hold.
	Needs privilege.Set
	// Lasting operations use the state of a server between calls ([Env.Sessions]). They
	// have no command.
	Lasting bool
	// Local operations are only on the command line.
	Local bool
	// OfUser lists are also to be had of another user's state. The command line becomes that user
	// first: --of.
	OfUser bool
	// Opens means that the operation opens a new sandbox. Its first audit record then has
	// the sandbox's id.
	Opens bool
	// Each operations do the same to several things. If it fails for some, the output, which comes
	// with the error, says what was done to the others.
	Each bool
	// Alias is another name of its command.
	Alias string
	// Refuses are flags that its help leaves out: it refuses them, and says what to do instead.
	Refuses []string
	// Profile is the smallest set of tools for models that has the operation.
	Profile Profile
	Hints   Hints
	Streams Streams
}

// Hints tell doors and their clients what to expect of an operation.
type Hints struct {
	// ReadOnly operations change nothing.
	ReadOnly bool
	// Destructive operations may change or remove existing things.
	Destructive bool
	// Idempotent operations have the same effect done twice as done once.
	Idempotent bool
	// LongRunning operations take as long as the commands that they start.
	LongRunning bool
	// Control operations inspect or end running commands, quickly. A door accepts them even
	// if all its slots are taken.
	Control bool
	// Frees operations end or release something. They run even if the audit record
	// cannot be written.
	Frees bool
	// OpenWorld operations reach beyond the sandbox and its workspace.
	OpenWorld bool
}

// Streams lists the live streams that an operation can use.
type Streams struct {
	In, Out bool
	// Lines operations can read and write JSON objects, one per line, and then have no
	// other output.
	Lines bool
	// Interrupts operations pass SIGINT to the command inside, and do not end on it.
	Interrupts bool
	// Progress operations show on a terminal how far they are.
	Progress bool
}

// Op is one row of the table.
type Op struct {
	Desc
	in     reflect.Type
	out    reflect.Type
	decode func(input []byte) (any, error)
	do     func(ctx context.Context, env *Env, in any, stream *Stream) (any, error)
	render func(w io.Writer, out any) error
	refuse func(err error) any // turns an error into an answer, or nil
}

// Operation is implemented by the input struct of an operation.
type Operation[O any] interface {
	Desc() Desc
	Do(ctx context.Context, env *Env, stream *Stream) (O, error)
}

// Output is the result of an operation. Render writes it for people. An output may also be
// a [Remarker], a [Teller], a [Failer] or a [Statuser].
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

// New returns an operation made from functions instead of methods. The host tools use it to
// wrap each output in an answer. I must be a struct.
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

// Check returns the error that Call would return for an invalid input, and runs nothing.
func (o Op) Check(input []byte) error {
	_, err := o.decode(input)
	return err
}

// AnsweringErrors returns the operation with refuse applied to each error that keeps it
// from running, because its contract has errors as answers.
func (o Op) AnsweringErrors(refuse func(err error) any) Op {
	o.refuse = refuse
	return o
}

// Render writes an output of Call for people.
func (o Op) Render(w io.Writer, out any) error { return o.render(w, out) }

// Remarker is an output with a text that people read beside it, on standard error, so that
// programs can use what Render writes as it is.
type Remarker interface {
	Remark(w io.Writer) error
}

// Teller is an output with a text for models that differs from the one for people.
type Teller interface {
	Tell(w io.Writer) error
}

// Statuser is an output that has an exit status for the program.
type Statuser interface {
	ExitStatus() int
}

// Failer is an output that can describe a failure. A door that distinguishes answers from
// errors reports it as an error.
type Failer interface {
	Failed() bool
}

// Death is the part of an output about the end of processes.
type Death struct {
	SurvivorsKilled int  `json:"survivors_killed"` // processes that outlived the ended command, and were killed
	DeathProved     bool `json:"death_proved"`     // all its processes are gone
}

// NewDeath returns a Death.
func NewDeath(killed int, proved bool) Death { return Death{killed, proved} }

// DeathOf returns how the processes of a command ended.
func DeathOf(r *paddock.Result) Death { return NewDeath(r.SurvivorsKilled, r.DeathProved) }

// Proof returns a text about the processes, to be appended to a line. It is empty if all ended
// without being killed.
func (d Death) Proof() string { return output.Proof(d.SurvivorsKilled, d.DeathProved) }

// The statuses of a program that runs commands, as shells and timeout(1) use them.
const (
	StatusTimedOut = 124
	StatusFailed   = 125 // Paddock could not run it
	StatusRefused  = 126 // a rule or the kernel refused to execute it
	StatusNotFound = 127
	StatusSignal   = 128 // plus the signal's number
)

// Profile is a set of tools for models: a model with fewer tools chooses better. In a
// [Desc] it is a bit mask of the smaller sets that have the operation.
type Profile uint8

// The profiles.
const (
	ProfileFull      Profile = 0 // every operation that the principal may use
	ProfileWorkspace Profile = 1 // work in one workspace: commands, files, services, sessions
	ProfileRun       Profile = 2 // only one-shot commands, each in a new sandbox
)

// Profiles returns all profiles, the smallest first.
func Profiles() []Profile { return []Profile{ProfileRun, ProfileWorkspace, ProfileFull} }

// Offers reports whether p has an operation whose Desc has the profiles of.
func (p Profile) Offers(of Profile) bool { return p == ProfileFull || of&p != 0 }

// String returns the names of the profiles.
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
