package cli

import (
	"bufio"
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/table"
)

// The manual page has every command and every flag, and what man would obey is escaped.
func TestManual(t *testing.T) {
	root := (&App{program: Program{MCP: func(_ *App, cmd *cobra.Command) { cmd.Flags().Bool("served", false, "a flag of the server") }}}).root(nil)
	var page bytes.Buffer
	if err := writeMan(&page, root); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, o := range table.All() {
		if !o.Lasting && !strings.Contains(text, roff.Replace("\n.SS \"paddock "+strings.Join(o.CLI, " "))) {
			t.Errorf("the page lacks the command %s", o.CLI)
		}
	}
	var each func(cmd *cobra.Command)
	each = func(cmd *cobra.Command) {
		_, section, _ := strings.Cut(text, "\n.SS \""+roff.Replace(cmd.UseLine())+"\"\n")
		section, _, _ = strings.Cut(section, "\n.S")
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if cmd != root && f.Name != "help" && !strings.Contains(section, roff.Replace("--"+f.Name)) {
				t.Errorf("the page lacks --%s of %s", f.Name, cmd.CommandPath())
			}
		})
		for _, below := range cmd.Commands() {
			each(below)
		}
	}
	each(root)
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(line, ".") &&
			!strings.Contains(" .TH .SH .SS .PP .TP .B .EX .EE ", " "+name+" ") {
			t.Errorf("a line begins like a request: %q", line)
		}
		if strings.HasPrefix(line, "'") {
			t.Errorf("a line begins like a request: %q", line)
		}
	}
}

func TestManualText(t *testing.T) {
	tests := []struct{ text, want string }{
		{"one\ntwo\n\nthree", "one\ntwo\n.PP\nthree\n"},
		{"so:\n\n  a -b\n\n  c\n\nend", "so:\n.PP\n.EX\n  a \\-b\n\n  c\n\n.EE\nend\n"},
		{".hidden", "\\&.hidden\n"},
		{"'quoted' \\n", "\\&\\(aqquoted\\(aq \\en\n"},
	}
	for _, tt := range tests {
		var b bytes.Buffer
		m := &manual{bufio.NewWriter(&b)}
		m.text(tt.text)
		if err := m.Flush(); err != nil || b.String() != tt.want {
			t.Errorf("%q is %q, %v; want %q", tt.text, b.String(), err, tt.want)
		}
	}
}

// What help says is in the words of the command line: no tool, and no field of its own, has the name
// that models have for it. A line of JSON in "paddock session" has.
func TestHelpNamesNoTools(t *testing.T) {
	root := (&App{}).root(nil)
	for _, o := range table.All() {
		cmd, _, err := root.Find(o.CLI)
		if len(o.CLI) == 0 || o.Lasting || o.Name == "session" || err != nil {
			continue
		}
		inCommands(cmd)
		text := cmd.Long
		cmd.Flags().VisitAll(func(f *pflag.Flag) { text += "\n" + f.Usage })
		for _, word := range snakeCase().FindAllString(text, -1) {
			if slices.ContainsFunc(table.All(), func(o op.Op) bool { return o.Name == word }) {
				t.Errorf("paddock %s --help names the tool %s", strings.Join(o.CLI, " "), word)
			}
			if slices.ContainsFunc(o.Fields(), func(f op.Field) bool { return f.JSON == word }) {
				t.Errorf("paddock %s --help names the field %s", strings.Join(o.CLI, " "), word)
			}
		}
	}
}

// A command that runs another one in a sandbox shows where the two stand.
func TestUsageHasTheSandboxFirst(t *testing.T) {
	for name, want := range map[string]string{
		"exec":             "paddock exec NAME [flags] -- CMD [ARG]...",
		"service start":    "paddock service start NAME [flags] -- COMMAND...",
		"run":              "paddock run [flags] [--] CMD [ARG]...",
		"workspace export": "paddock workspace export [flags] [--] [PATH]...",
		"diff":             "paddock diff [flags] [--] NAME [PATH]...",
	} {
		cmd, _, err := (&App{}).root(nil).Find(strings.Fields(name))
		if err != nil || cmd.UseLine() != want {
			t.Errorf("%s: %q, want %q", name, cmd.UseLine(), want)
		}
	}
}
