package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/table"
	"github.com/paddock-dev/paddock/policy"
)

// Input gathers an input object from flags and arguments.
type Input struct {
	// Words are the flags that were given, as --name=value.
	Words []string

	cmd     *cobra.Command
	command string // its name in errors, without the program's
	fields  []op.Field
	values  map[string]any
}

// AddFlags gives cmd a flag for each field that has one; the others are arguments. If the
// first of these is a list, they are a command, whose own flags follow it. Errors call
// cmd by name.
func AddFlags(cmd *cobra.Command, name string, fields []op.Field) *Input {
	in := &Input{cmd: cmd, command: name, fields: fields, values: make(map[string]any)}
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, f := range fields {
		if f.Flag == "" {
			if !cmd.DisableFlagsInUseLine {
				flags.SetInterspersed(f.Kind != op.KindList)
				usage := " [flags] [--]"
				if takesCommand(fields) {
					usage = " NAME [flags] --" // a sandbox, and a command in it
				}
				cmd.Use += usage
				cmd.DisableFlagsInUseLine = true
			}
			cmd.Use += " " + f.Arg
			continue
		}
		v := &value{field: f, in: in}
		flag := flags.VarPF(v, f.Flag, f.Short, f.Help)
		if f.Kind == op.KindBool {
			flag.NoOptDefVal = "true"
		} else if f.Bare != "" {
			flag.NoOptDefVal = f.Bare
		}
		complete(cmd, f)
	}
	return in
}

// Encode returns the input object as JSON, with the arguments in the fields that take
// them: one each, in order, and a list takes the rest.
func (in *Input) Encode(args []string) ([]byte, error) {
	rest, err := in.lead(args)
	if err != nil {
		return nil, err
	}
	takes := "flags alone"
	for _, f := range in.fields {
		switch {
		case f.Flag != "":
			continue
		case f.Kind == op.KindList:
			if i := slices.IndexFunc(rest, func(arg string) bool { return !f.Bytes && !utf8.ValidString(arg) }); i >= 0 {
				return nil, &policy.FieldError{Field: "argument " + strconv.Itoa(len(args)-len(rest)+i+1), Value: rest[i], Reason: "it is not valid UTF-8"}
			}
			in.values[f.JSON], rest = osstring.List(rest), nil
		case len(rest) > 0:
			val, err := f.Value(rest[0])
			if err != nil {
				return nil, err
			}
			in.values[f.JSON], rest = val, rest[1:]
		}
		takes = "no more arguments"
	}
	if len(rest) > 0 {
		hint := "paddock " + in.command + " --help"
		if i := slices.IndexFunc(in.fields, func(f op.Field) bool { return f.Flag != "" }); i >= 0 && in.fields[i].Kind == op.KindList {
			hint = "did you mean --" + in.fields[i].Flag + " " + policy.ShellWord(rest[0]) + "? " + hint
		}
		return nil, &paddock.Error{Message: "cannot use " + strconv.Quote(rest[0]) + ": " + in.command + " takes " + takes, Hint: hint}
	}
	data, err := json.Marshal(in.values)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the flags: %w", err)
	}
	return data, nil
}

// absolute returns the flags that were given, for a program in another directory.
func (in *Input) absolute() ([]string, error) {
	words := slices.Clone(in.Words)
	for i, word := range words {
		name, value, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		if !slices.ContainsFunc(in.fields, func(f op.Field) bool { return f.Flag == name && f.Complete == "dir" }) {
			continue
		}
		path, err := hostpath.Abs(value)
		if err != nil {
			return nil, &policy.FieldError{Field: "--" + name, Value: value, Reason: hostpath.Reason(err)}
		}
		words[i] = "--" + name + "=" + path
	}
	return words, nil
}

// takesCommand reports whether a command runs another one in a sandbox: NAME -- CMD.
func takesCommand(fields []op.Field) bool {
	return slices.ContainsFunc(fields, func(f op.Field) bool { return f.Leads }) &&
		slices.ContainsFunc(fields, func(f op.Field) bool { return f.Flag == "" && f.Kind == op.KindList && !strings.HasPrefix(f.Arg, "[") })
}

// lead takes the name of a sandbox that comes first, where a field can be given that way, and
// returns the rest: NAME of "NAME [FLAGS] -- CMD", and one argument more than the command takes.
func (in *Input) lead(args []string) (rest []string, err error) {
	lead := slices.IndexFunc(in.fields, func(f op.Field) bool { return f.Leads })
	if lead < 0 || len(args) == 0 {
		return args, nil
	}
	name := in.fields[lead].JSON
	if _, given := in.values[name]; given {
		return args, nil
	}
	words := slices.DeleteFunc(slices.Clone(in.fields), func(f op.Field) bool { return f.Flag != "" })
	lists := slices.ContainsFunc(words, func(f op.Field) bool { return f.Kind == op.KindList })
	switch {
	case takesCommand(in.fields) && in.cmd.ArgsLenAtDash() < 0 && !slices.Contains(args, "--"):
		wrong := op.Unnamed("--" + in.fields[lead].Flag)
		meant := []string{"paddock", in.command, policy.ShellWord(args[0]), "--"}
		for _, arg := range args[1:] {
			meant = append(meant, policy.ShellWord(arg))
		}
		if len(args) == 1 {
			meant = append(meant, words[0].Arg)
		}
		wrong.Hint = "the sandbox stands before --, and its command after that: did you mean " + strings.Join(meant, " ") + "?"
		return nil, wrong
	case lists && len(args) > 1 && strings.HasPrefix(args[1], "-") && slices.Contains(args, "--") && in.cmd.ArgsLenAtDash() < 0:
		if in.values[name], err = in.fields[lead].Value(args[0]); err != nil {
			return nil, err
		}
		if err := in.cmd.Flags().Parse(args[1:]); err != nil {
			return nil, FlagError(in.cmd, err)
		}
		return in.cmd.Flags().Args(), nil
	case !lists && len(args) == len(words)+1:
		in.values[name], err = in.fields[lead].Value(args[0])
		return args[1:], err
	}
	return args, nil
}

// value is a flag that writes into the input object.
type value struct {
	field op.Field
	in    *Input
}

// Set sets the value; of a list each occurrence of the flag adds to it.
func (v *value) Set(text string) error {
	val, err := v.field.Value(text)
	if err != nil {
		return err
	}
	if v.field.Kind == op.KindList {
		list, _ := v.in.values[v.field.JSON].([]any)
		val = append(list, val)
	}
	v.in.values[v.field.JSON] = val
	v.in.Words = append(v.in.Words, "--"+v.field.Flag+"="+text)
	return nil
}

// Type returns what help texts call the value; they show nothing for "bool".
func (v *value) Type() string {
	if v.field.Kind == op.KindBool {
		return "bool"
	}
	return v.field.Arg
}

// String returns nothing, so that help texts show no default: Help names it.
func (v *value) String() string { return "" }

// FlagName returns the name of a field on the command line: its flag, or its argument.
func FlagName(f op.Field) string {
	if f.Flag == "" {
		name, _, _ := strings.Cut(f.Arg, " ")
		return strings.Trim(name, "[].")
	}
	return "--" + f.Flag
}

// FlagError rewords errors of cobra and pflag.
func FlagError(cmd *cobra.Command, err error) error {
	hint := cmd.CommandPath() + " --help"
	if fields := policy.FieldErrors(err); len(fields) > 0 {
		return fields[0]
	}
	unknown, bare := (*pflag.NotExistError)(nil), (*pflag.ValueRequiredError)(nil)
	switch {
	case errors.As(err, &unknown):
		if _, group := table.Groups()[strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")]; group && cmd.Flags().NArg() > 0 {
			return UnknownCommand(cmd, cmd.Flags().Arg(0))
		}
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		var flags []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f.Name) })
		if near := policy.Nearest(unknown.GetSpecifiedName(), flags); near != "" && strings.HasPrefix(name, "--") {
			hint = "did you mean --" + near + "? " + hint
		} else if other := besides(cmd, unknown.GetSpecifiedName()); other != "" {
			hint = other
		} else if cmd.Flags().Lookup("no-stdin") != nil && slices.Contains([]string{"i", "interactive"}, unknown.GetSpecifiedName()) {
			hint = "standard input is passed on without it; -t gives the command a terminal. " + hint
		}
		return &paddock.Error{Message: "cannot use " + name + ": " + cmd.CommandPath() + " has no such flag", Hint: hint}
	case errors.As(err, &bare):
		return &paddock.Error{Message: "cannot use --" + bare.GetFlag().Name + ": its value is missing", Hint: hint}
	}
	return &paddock.Error{Message: "cannot read the flags: " + err.Error(), Hint: hint}
}

// besides returns which command beside cmd has a flag, and what for; "" if none has.
func besides(cmd *cobra.Command, flag string) string {
	for _, o := range table.All() {
		path := cmd.Root().Name() + " " + strings.Join(o.CLI, " ")
		if n := len(o.CLI) - 1; n > 0 && cmd.HasParent() && path == cmd.Parent().CommandPath()+" "+o.CLI[n] &&
			slices.ContainsFunc(o.Fields(), func(f op.Field) bool { return f.Flag == flag }) {
			return path + " has it, to " + strings.ToLower(o.Summary[:1]) + o.Summary[1:]
		}
	}
	return ""
}

// ParseProfile reads the value of --profile.
func ParseProfile(name string) (op.Profile, error) {
	for _, p := range op.Profiles() {
		if p.String() == name {
			return p, nil
		}
	}
	return 0, &policy.FieldError{Field: "--profile", Value: name, Reason: "unknown profile", Hint: "run, workspace or full"}
}

// completionCommand returns the command that prints a script for completion.
func completionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes command lines in your shell",
		Long:  "Print a script that completes paddock's command lines in the shell that is named.",
		Example: `  # bash, for this shell; for all shells, write it where bash-completion looks
  source <(paddock completion bash)

  # zsh
  paddock completion zsh > "${fpath[1]}/_paddock"

  # fish
  paddock completion fish > ~/.config/fish/completions/paddock.fish`,
		ValidArgs: []string{"bash", "zsh", "fish"},
		Args:      cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return &paddock.Error{Message: "cannot choose a shell: name one of bash, zsh and fish"}
			}
			switch args[0] {
			case "bash":
				return cmd.Root().GenBashCompletionV2(os.Stdout, true)
			case "zsh":
				return cmd.Root().GenZshCompletion(os.Stdout)
			case "fish":
				return cmd.Root().GenFishCompletion(os.Stdout, true)
			}
			return &paddock.Error{
				Message: "cannot complete for " + strconv.Quote(args[0]) + ": the shells are bash, zsh and fish",
			}
		},
	}
}

// complete registers the values that the shell offers for a flag. The functions fail only
// for unknown flags, and the flag was added just before.
func complete(cmd *cobra.Command, f op.Field) {
	switch {
	case len(f.Choices) > 0:
		_ = cmd.RegisterFlagCompletionFunc(f.Flag, cobra.FixedCompletions(f.Choices, cobra.ShellCompDirectiveNoFileComp))
	case f.Complete == "dir":
		_ = cmd.MarkFlagDirname(f.Flag)
	case f.Complete == "sandbox":
		_ = cmd.RegisterFlagCompletionFunc(f.Flag, completeSandbox)
	case f.Complete != "file" && f.Kind != op.KindBool:
		_ = cmd.RegisterFlagCompletionFunc(f.Flag, cobra.NoFileCompletions)
	}
}

// completeArgs completes the arguments of a command that names a sandbox.
func completeArgs(fields []op.Field) cobra.CompletionFunc {
	words := slices.DeleteFunc(slices.Clone(fields), func(f op.Field) bool { return f.Flag != "" })
	leads := slices.ContainsFunc(fields, func(f op.Field) bool { return f.Leads })
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		at := min(len(args), len(words)-1)
		if at >= 0 && at == len(args) && words[at].Complete == "copy" {
			return completeCopy(cmd, args, typed)
		}
		named := at >= 0 && (at == len(args) || words[at].Kind == op.KindList) && words[at].Complete == "sandbox"
		if named || leads && len(args) == 0 {
			return completeSandbox(cmd, args, typed)
		}
		if at >= 0 && words[0].Complete == "sandbox" && words[at].Kind != op.KindList { // what follows is in the sandbox
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveDefault
	}
}

// completeCopy offers NAME: for the sandboxes that a word may mean, and otherwise files.
func completeCopy(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	names, _ := completeSandbox(cmd, args, typed)
	var offered []cobra.Completion
	for _, name := range names {
		name, state, described := strings.Cut(name, "\t")
		if strings.HasPrefix(name, typed) && (!described || state == paddock.StateRunning) {
			offered = append(offered, name+":")
		}
	}
	if len(offered) == 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return offered, cobra.ShellCompDirectiveNoSpace
}

// completeSandbox offers the names of the sandboxes that the command can be about, but for those that
// it names already. What it cannot find out it leaves out.
func completeSandbox(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	lasting, _ := paddock.ListLasting(cmd.Context(), paddock.Options{})
	known := map[string]bool{}
	for _, k := range lasting {
		known[k.ID] = true
		if takes(cmd, k.State) && !slices.Contains(args, k.Called()) {
			names = append(names, cobra.CompletionWithDesc(k.Called(), k.State))
		}
	}
	opened, _ := paddock.List(cmd.Context(), paddock.Options{})
	for _, r := range opened {
		if !known[r.ID] && takes(cmd, paddock.StateRunning) && !slices.Contains(args, r.ID) {
			names = append(names, r.ID)
		}
	}
	layers, _ := paddock.Layers(paddock.Options{})
	for _, l := range layers {
		if !known[l.ID] && takes(cmd, aLayer) && !slices.Contains(names, l.ID) {
			names = append(names, cobra.CompletionWithDesc(l.ID, "a layer over "+text.QuoteName(l.Source)))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// aLayer stands for the state of what is left of a sandbox that has ended.
const aLayer = "layer"

// takes reports whether a command can be about a sandbox in a state.
func takes(cmd *cobra.Command, state string) bool {
	for cmd.HasParent() && cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	switch cmd.Name() {
	case "diff", "commit", "discard":
		return true
	case "status", "rm":
		return state != aLayer
	case "start":
		return state == paddock.StateStopped
	case "resume":
		return state == paddock.StatePaused
	}
	return state == paddock.StateRunning || state == paddock.StatePaused
}
