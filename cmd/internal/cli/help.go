package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/table"
)

// snakeCase is the name of a tool or of a field; in quotes it is one of JSON.
var snakeCase = lazyregexp.New(`"?\b[a-z]+(?:_[a-z0-9]+)+\b`)

// optionalValue is what pflag writes behind a flag whose value may be left out.
var optionalValue = lazyregexp.New(` ([A-Z]+)\[=[a-z]+\]`)

// optionalValues returns a help text with --flag[=VALUE] for the flags whose value may be left out.
// What follows stays in its column.
func optionalValues(help string) string {
	return optionalValue().ReplaceAllStringFunc(help, func(written string) string {
		name, _, _ := strings.Cut(written[1:], "[")
		return fmt.Sprintf("%-*s", len(written), "[="+name+"]")
	})
}

// inCommands rewrites the manual of a command, which models read, too, for people at a terminal:
// flags replace fields, and commands replace tools. Paragraphs about calls of tools are left out.
func inCommands(cmd *cobra.Command) {
	ops := table.All()
	path := strings.Fields(cmd.CommandPath())[1:]
	i := slices.IndexFunc(ops, func(o op.Op) bool { return slices.Equal(o.CLI, path) })
	if i < 0 {
		return
	}
	names := map[string]string{}
	for _, o := range ops {
		if len(o.CLI) > 0 {
			names[o.Name] = "paddock " + strings.Join(o.CLI, " ")
		}
	}
	for _, f := range ops[i].Fields() {
		names[f.JSON] = FlagName(f)
	}
	reword := func(text string) string {
		return snakeCase().ReplaceAllStringFunc(text, func(name string) string {
			if own, known := names[name]; known {
				return own
			}
			return name
		})
	}
	paragraphs := slices.DeleteFunc(strings.Split(cmd.Long, "\n\n"), func(p string) bool { return strings.HasPrefix(p, "In a tool call") })
	cmd.Long = reword(strings.Join(paragraphs, "\n\n"))
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = reword(f.Usage) })
}
