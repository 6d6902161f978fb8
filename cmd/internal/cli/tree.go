package cli

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/op/table"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege/stores"
)

// root returns the tree of commands.
func (a *App) root(args []string) *cobra.Command {
	version := false
	root := &cobra.Command{
		Use:   "paddock",
		Short: "An agent sandbox runtime: run commands inside real walls",
		Long: `Paddock runs commands in sandboxes that the kernel keeps: a workspace that they
may change, a read-only system around it, and no network unless you give one.`,
		Example:           "  paddock run -- make test\n  paddock doctor",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		Args:              cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch ops := table.All(); {
			case len(args) > 0:
			case version:
				return a.call(ops[slices.IndexFunc(ops, func(o op.Op) bool { return o.Name == "version" })], []byte("{}"), false)
			default:
				return cmd.Help()
			}
			hint := "to run it in a sandbox: paddock run -- " + args[0]
			if near := nearestCommand(cmd, args[0]); near != "" {
				hint = "did you mean " + near + "? " + hint
			}
			return &paddock.Error{Message: "cannot do " + strconv.Quote(args[0]) + ": there is no such command", Hint: hint}
		},
	}
	root.Flags().BoolVar(&version, "version", false, "say which Paddock this is, as paddock version does")
	root.SetFlagErrorFunc(FlagError)
	root.PersistentFlags().StringVar(&a.privileges, "privileges", "",
		"`FILE` or URL of a Redis server where privileges are kept (default: $"+stores.Env+", else "+stores.FileName+" in the state directory)")
	root.PersistentFlags().StringVar(&a.audit, "audit", auditRequired,
		"refuse what cannot be put on record (required), or do it all the same (best-effort), as `MODE`; what needs a privilege is always refused")
	a.addCommands(root, table.All(), args)
	root.AddCommand(completionCommand(), a.manCommand())
	show := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		inCommands(cmd)
		var text strings.Builder
		out := cmd.OutOrStdout()
		cmd.SetOut(&text)
		show(cmd, args)
		cmd.SetOut(out)
		_, _ = io.WriteString(out, optionalValues(text.String()))
	})
	root.InitDefaultHelpCmd()
	refuseUnknownTopics(root)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range root.Commands() {
			if slices.Contains(g.commands, cmd.Name()) {
				cmd.GroupID = g.title
			}
		}
	}
	return root
}

// command renders an operation. withFlags is false if the command will not be used:
// most of a start would go into flags.
func (a *App) command(o op.Op, withFlags bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:     o.CLI[len(o.CLI)-1],
		Short:   o.Summary,
		Long:    o.Doc,
		Example: o.Examples,
		Args:    cobra.ArbitraryArgs,
	}
	if o.Alias != "" {
		cmd.Aliases = []string{o.Alias}
	}
	if !withFlags {
		cmd.RunE = func(*cobra.Command, []string) error { return nil } // listed in help texts
		return cmd
	}
	if slices.ContainsFunc(o.Fields(), func(f op.Field) bool { return f.Complete == "sandbox" || f.Complete == "copy" }) {
		cmd.ValidArgsFunction = completeArgs(o.Fields())
	}
	in := AddFlags(cmd, strings.Join(o.CLI, " "), o.Fields())
	for _, name := range o.Refuses {
		cmd.Flags().Lookup(name).Hidden = true
	}
	help := "print one JSON object instead of text"
	if o.Streams.Lines {
		help = "read and print JSON objects, one a line"
	}
	asJSON := cmd.Flags().Bool("json", false, help)
	var of *string
	if o.OfUser {
		of = cmd.Flags().String("of", "", "ask as `USER`, of what is that user's (for root)")
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		input, err := in.Encode(args)
		if err != nil {
			return err
		}
		if cmd.Flags().Changed("of") {
			words, err := in.absolute()
			if err != nil {
				return err
			}
			return a.asUser(*of, slices.Concat(o.CLI, words, []string{"--json=" + strconv.FormatBool(*asJSON), "--"}, args), *asJSON)
		}
		return a.call(o, input, *asJSON)
	}
	return cmd
}

// addCommands renders operations below root. A command of several words is a subcommand of
// the words before the last, which are another operation, or a group that only holds others.
func (a *App) addCommands(root *cobra.Command, ops []op.Op, args []string) {
	wanted := commandOf(ops, args)
	mcp := a.mcpCommand(startsWith([]string{"mcp"}, wanted))
	root.AddCommand(mcp)
	made := map[string]*cobra.Command{"": root, "mcp": mcp}
	byLength := slices.DeleteFunc(slices.Clone(ops), func(o op.Op) bool { return o.Lasting })
	slices.SortStableFunc(byLength, func(a, b op.Op) int { return len(a.CLI) - len(b.CLI) })
	for _, o := range byLength {
		if hides(ops, wanted, o, args) {
			continue
		}
		cmd := a.command(o, startsWith(o.CLI, wanted))
		parentOf(made, o.CLI).AddCommand(cmd)
		made[strings.Join(o.CLI, " ")] = cmd
	}
}

// hides reports whether o is a subcommand of the wanted command which args do not name, where
// that command takes the words of a command of its own: in "paddock exec --sandbox web kill 1",
// kill is a program in the sandbox.
func hides(ops []op.Op, wanted []string, o op.Op, args []string) bool {
	if len(wanted) == 0 || len(o.CLI) <= len(wanted) || !startsWith(o.CLI, wanted) || slices.Contains(args, "--help") || slices.Contains(args, "-h") {
		return false
	}
	i := slices.IndexFunc(ops, func(o op.Op) bool { return slices.Equal(o.CLI, wanted) })
	if i < 0 {
		return false
	}
	words := slices.DeleteFunc(ops[i].Fields(), func(f op.Field) bool { return f.Flag != "" })
	return len(words) > 0 && words[0].Kind == op.KindList
}

// commandOf returns the longest path of a command that args start with, or an empty one.
func commandOf(ops []op.Op, args []string) []string {
	var wanted []string
	if startsWith(args, []string{"mcp"}) {
		return args[:1]
	}
	for _, o := range ops {
		if (startsWith(args, o.CLI) || o.Alias != "" && startsWith(args, []string{o.Alias})) && len(o.CLI) > len(wanted) {
			wanted = o.CLI
		}
	}
	return wanted
}

func startsWith(words, first []string) bool {
	return len(words) >= len(first) && slices.Equal(words[:len(first)], first)
}

// parentOf returns the parent command of path, and makes missing groups.
func parentOf(made map[string]*cobra.Command, path []string) *cobra.Command {
	name := strings.Join(path[:len(path)-1], " ")
	if cmd := made[name]; cmd != nil {
		return cmd
	}
	group := table.Groups()[name]
	cmd := &cobra.Command{
		Use:     path[len(path)-2],
		Short:   group.Summary,
		Example: group.Examples,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return UnknownCommand(cmd, args[0])
		},
	}
	parentOf(made, path[:len(path)-1]).AddCommand(cmd)
	made[name] = cmd
	return cmd
}

// UnknownCommand returns the error about a word that names no command below cmd.
func UnknownCommand(cmd *cobra.Command, word string) error {
	path, hint := strings.TrimPrefix(cmd.CommandPath()+" "+word, cmd.Root().Name()+" "), cmd.CommandPath()+" --help"
	if names := commandNames(cmd); cmd.HasParent() && len(names) > 0 { // the program has too many
		hint = "the commands are " + strings.Join(names, ", ") + ": " + hint
	}
	if near := nearestCommand(cmd, word); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return &paddock.Error{Message: "cannot do " + strconv.Quote(path) + ": there is no such command", Hint: hint}
}

// nearestCommand returns the path of the command below cmd that a word probably means,
// empty if none is near.
func nearestCommand(cmd *cobra.Command, word string) string {
	if near := policy.Nearest(word, commandNames(cmd)); near != "" {
		return cmd.CommandPath() + " " + near
	}
	return ""
}

// commandNames returns the names of the commands below cmd, sorted.
func commandNames(cmd *cobra.Command) []string {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	slices.Sort(names)
	return names
}

// refuseUnknownTopics makes the help command fail for unknown commands.
func refuseUnknownTopics(root *cobra.Command) {
	help := root.Commands()[slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == "help" })]
	show := help.Run
	help.Run, help.RunE = nil, func(cmd *cobra.Command, args []string) error {
		if found, rest, err := root.Find(args); err == nil && len(rest) > 0 && found.HasSubCommands() {
			return UnknownCommand(found, rest[0])
		}
		show(cmd, args)
		return nil
	}
}

// groups are the parts of the help text. Commands outside of them come last.
var groups = []struct {
	title    string
	commands []string
}{
	{"Run commands in sandboxes:", []string{"run", "session", "exec", "shell", "logs", "execute", "service", "wrap", "list", "forward", "network", "secret"}},
	{"Keep sandboxes:", []string{"create", "status", "stop", "start", "rm", "pause", "resume", "stats", "prune"}},
	{"Look at changes before they land:", []string{"try", "diff", "commit", "discard", "layers"}},
	{"Work with the files of a workspace:", []string{"cp", "file", "patch", "workspace", "git"}},
	{"Set up a project:", []string{"init", "trust"}},
	{"Serve models:", []string{"mcp", "token"}},
	{"Look at walls, rules and records:", []string{"plan", "doctor", "policy", "audit", "written", "cache", "version"}},
	{"Reach the host itself, with a privilege:", []string{"cgroup", "unshare", "nsenter", "privilege"}},
}
