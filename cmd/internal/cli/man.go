package cli

import (
	"bufio"
	"cmp"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-dev/paddock"
)

// manCommand returns the command that prints the manual page.
func (a *App) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "Print the manual page",
		Long:  "Print the manual page of paddock, with every command and every flag, as man(7) has it.",
		Example: `  # read it
  paddock man | man -l -

  # have it where man looks
  paddock man >~/.local/share/man/man1/paddock.1`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &paddock.Error{Message: "cannot use " + strconv.Quote(args[0]) + ": man takes flags alone", Hint: "paddock man"}
			}
			if a.program.MCP == nil {
				return becomeServer() // only that program has the flags of paddock mcp
			}
			return writeMan(os.Stdout, a.root(nil))
		},
	}
}

// writeMan writes the manual page of a tree of commands.
func writeMan(w io.Writer, root *cobra.Command) error {
	m := &manual{bufio.NewWriter(w)}
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
	}
	m.macro(".TH", strings.ToUpper(root.Name()), "1", "", root.Name()+" "+version, "")
	m.macro(".SH", "NAME")
	m.line(root.Name() + " - " + root.Short)
	m.macro(".SH", "SYNOPSIS")
	m.macro(".B", root.Name())
	m.line("COMMAND [flags] [arguments]")
	m.macro(".SH", "DESCRIPTION")
	m.text(root.Long)
	m.examples(root)
	m.macro(".SH", "FLAGS OF EVERY COMMAND")
	m.flags(root.PersistentFlags())
	for _, g := range root.Groups() {
		m.macro(".SH", strings.ToUpper(strings.TrimSuffix(g.Title, ":")))
		m.commands(root, g.ID)
	}
	m.macro(".SH", "OTHER COMMANDS")
	m.commands(root, "")
	return m.Flush()
}

// manual writes a page in the language of man(7). Errors are kept until it is flushed.
type manual struct{ *bufio.Writer }

// commands writes those of root's commands that are in a group.
func (m *manual) commands(root *cobra.Command, group string) {
	for _, cmd := range root.Commands() {
		if cmd.GroupID == group {
			m.command(cmd)
		}
	}
}

// command writes a command and those below it.
func (m *manual) command(cmd *cobra.Command) {
	inCommands(cmd)
	m.macro(".SS", cmd.UseLine())
	m.text(cmp.Or(cmd.Long, cmd.Short+"."))
	for _, alias := range cmd.Aliases {
		m.macro(".PP")
		m.line("Also: " + cmd.Parent().CommandPath() + " " + alias)
	}
	m.flags(cmd.LocalNonPersistentFlags())
	m.examples(cmd)
	for _, below := range cmd.Commands() {
		m.command(below)
	}
}

// flags writes what each flag is for. The flag --help is the same everywhere.
func (m *manual) flags(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		arg, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		switch {
		case arg != "" && f.NoOptDefVal != "":
			name += "[=" + arg + "]"
		case arg != "":
			name += " " + arg
		}
		m.macro(".TP")
		m.macro(".B", name)
		m.line(usage)
	})
}

// examples writes the examples of a command as they are.
func (m *manual) examples(cmd *cobra.Command) {
	if cmd.Example == "" {
		return
	}
	m.macro(".PP")
	m.line("Examples:")
	m.text(cmd.Example)
}

// text writes paragraphs. Lines that begin with a space stay as they are.
func (m *manual) text(text string) {
	asIs := false
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, "\n")
		switch indented := strings.HasPrefix(line, " "); {
		case line == "" && !asIs:
			m.macro(".PP")
			continue
		case indented != asIs && line != "":
			asIs = indented
			m.macro(map[bool]string{true: ".EX", false: ".EE"}[asIs])
		}
		m.line(line)
	}
	if asIs {
		m.macro(".EE")
	}
}

// macro writes a request with its arguments.
func (m *manual) macro(name string, args ...string) {
	_, _ = m.WriteString(name)
	for _, arg := range args {
		_, _ = m.WriteString(` "` + strings.ReplaceAll(roff.Replace(arg), `"`, `\(dq`) + `"`)
	}
	_ = m.WriteByte('\n')
}

// line writes a line of text.
func (m *manual) line(text string) {
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		_, _ = m.WriteString(`\&`) // it is no request
	}
	_, _ = m.WriteString(roff.Replace(text) + "\n")
}

// roff writes characters that the language reads otherwise, or prints as others.
var roff = strings.NewReplacer(`\`, `\e`, `-`, `\-`, `'`, `\(aq`, "`", `\(ga`, `^`, `\(ha`, `~`, `\(ti`)
