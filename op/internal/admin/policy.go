package admin

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// PolicyRules is the field that selects the rules for commands.
type PolicyRules struct {
	SpecFile osstring.String `json:"spec_file,omitempty" flag:"spec" arg:"FILE" complete:"file" help:"use the rules in the commands section of a spec file (default, and if it has none: the built-in list)" within:"files"`
}

// rules returns the rules, and the spec that they come from.
func (in PolicyRules) rules(ctx context.Context, env *op.Env) (*command.Rules, policy.Spec, error) {
	var spec policy.Spec
	if in.SpecFile == "" {
		rules, err := command.New(policy.DefaultCommands())
		return rules, spec, err
	}
	if err := env.MayRead("spec_file", string(in.SpecFile)); err != nil {
		return nil, spec, err
	}
	data, err := env.ReadFile(ctx, "spec_file", "spec", string(in.SpecFile), specfile.MaxSize)
	if err != nil {
		return nil, spec, err
	}
	file, err := specfile.Parse(string(in.SpecFile), data)
	if err != nil {
		return nil, spec, err
	}
	if file.Spec.Commands == nil { // as execute does
		rules, err := command.New(policy.DefaultCommands())
		return rules, file.Spec, err
	}
	rules, err := command.New(*file.Spec.Commands)
	if err != nil {
		return nil, file.Spec, file.Locate(err)
	}
	return rules.Given(slices.Collect(maps.Keys(file.Spec.Env))...), file.Spec, nil
}

type PolicyCheckInput struct {
	PolicyRules
	POSIX   bool          `json:"posix,omitempty" flag:"posix" help:"check the text as one for a shell without bash's extensions"`
	Command osstring.List `json:"command" arg:"TEXT | CMD ARG..." help:"one argument is shell text, several are a command and its arguments"`
}

type PolicyCheckOutput struct {
	command.Verdict
	asked []string
}

// ExitStatus returns 0 if the command is allowed, else 1.
func (out PolicyCheckOutput) ExitStatus() int {
	if out.Allowed {
		return 0
	}
	return 1
}

func (PolicyCheckInput) Desc() op.Desc {
	return op.Desc{
		Name:    "policy_check",
		CLI:     []string{"policy", "check"},
		Summary: "Report whether the rules for commands allow a command, and why",
		Doc: `Check a command against the rules for commands, and start nothing. One argument is
shell text, which is parsed as bash would; several are a command and its arguments.
Every program that the text can start must be on the list: also in pipelines,
substitutions and functions, and behind env, xargs and find -exec.

The list is a guard-rail, not a wall: an allowed interpreter can run anything, and
notes say so. go, cargo, make and compilers are interpreters in this sense: a
Makefile, a build script or a source file names what they run. The sandbox is the
wall.

Exit status: 0 allowed, 1 denied.`,
		Examples: `  paddock policy check 'ls; curl example.com'
  paddock policy check --spec sandbox.yaml 'grep -rn "a;b" . | sort | head -3'
  paddock policy check -- find . -name '*.go' -exec wc -l {} +`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (in PolicyCheckInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (PolicyCheckOutput, error) {
	if len(in.Command) == 0 {
		return PolicyCheckOutput{}, &paddock.Error{Message: "cannot check: no command was given", Hint: "paddock policy check 'ls | wc -l'"}
	}
	rules, spec, err := in.rules(ctx, env)
	if err != nil {
		return PolicyCheckOutput{}, err
	}
	judge := rules.Shell
	if in.POSIX {
		judge = rules.ShellPOSIX
	}
	var v command.Verdict
	if len(in.Command) == 1 {
		v = judge(in.Command[0])
	} else {
		v = rules.Argv(in.Command)
	}
	return PolicyCheckOutput{Verdict: command.PathsIn(spec).Check(v), asked: in.Command}, nil
}

func (out PolicyCheckOutput) Render(w io.Writer) error {
	var b strings.Builder
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %-9s %s\n", name, oneLine(value))
		}
	}
	if out.Allowed {
		b.WriteString("allowed\n")
		row("starts", text.OrNone(strings.Join(out.Programs, " ")))
	} else {
		fmt.Fprintf(&b, "denied: %s\n", oneLine(out.Reason))
		row("rule", out.Rule)
		row("command", out.Command)
		out.point(&b)
		row("hint", out.Hint)
	}
	row("dialect", out.Dialect)
	for _, note := range out.Notes {
		row("note", note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// point writes the position of the refused part.
func (out PolicyCheckOutput) point(b *strings.Builder) {
	p := out.Position
	switch {
	case p == nil:
	case p.Line == 0:
		fmt.Fprintf(b, "  %-9s word %d, %s\n", "position", p.Argument+1, oneLine(text.Truncate(out.asked[p.Argument], 60)))
	default:
		fmt.Fprintf(b, "  %-9s line %d, column %d\n", "position", p.Line, p.Column)
		line := []rune(strings.Split(out.asked[0], "\n")[p.Line-1])
		from := max(0, p.Column-1-30)
		shown := string(line[from:min(len(line), from+72)])
		fmt.Fprintf(b, "\n    %s\n    %s^\n\n", oneLine(shown), strings.Repeat(" ", p.Column-1-from))
	}
}

// oneLine returns a text as one printable line of as many characters.
func oneLine(s string) string {
	return text.Printable(strings.NewReplacer("\n", " ", "\t", " ").Replace(s), '?')
}

type PolicyListInput struct{ PolicyRules }

type PolicyListOutput struct {
	policy.Commands
}

func (PolicyListInput) Desc() op.Desc {
	return op.Desc{
		Name:    "policy_list",
		CLI:     []string{"policy", "list"},
		Summary: "Print the programs and blocked subcommands of the rules for commands",
		Doc: `Print the list of programs that commands may start, and the subcommands of these
that are blocked. In a spec file it is written as

  commands: {allow: [git, go, python3], subcommands: {pip: [install]}}

The list is a guard-rail, not a wall: the wall is the sandbox.`,
		Examples: `  paddock policy list
  paddock policy list --spec sandbox.yaml --json`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

func (in PolicyListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (PolicyListOutput, error) {
	rules, _, err := in.rules(ctx, env)
	if err != nil {
		return PolicyListOutput{}, err
	}
	return PolicyListOutput{rules.List()}, nil
}

func (out PolicyListOutput) Render(w io.Writer) error {
	var b strings.Builder
	for _, name := range out.Allow {
		b.WriteString("allow  " + name + "\n")
	}
	for _, name := range slices.Sorted(maps.Keys(out.Subcommands)) {
		b.WriteString("block  " + name + " " + strings.Join(out.Subcommands[name], ", ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
