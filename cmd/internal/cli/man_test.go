package cli

import (
	"bufio"
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/paddock-dev/paddock/internal/lazyregexp"
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

// A flag whose value may be left out is shown as it can be written.
func TestFlagsWithOptionalValues(t *testing.T) {
	root := (&App{program: Program{MCP: func(*App, *cobra.Command) {}}}).root(nil)
	cmd, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	var help, page bytes.Buffer
	cmd.SetOut(&help)
	if err := errors.Join(cmd.Help(), writeMan(&page, root)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(help.String(), " --ssh-agent[=USE] ") || strings.Contains(help.String(), "[=login]") {
		t.Errorf("the help has %q", lazyregexp.New(`.*--ssh-agent.*`)().FindString(help.String()))
	}
	if !strings.Contains(page.String(), roff.Replace("--ssh-agent[=USE]")) {
		t.Errorf("the manual has %q", lazyregexp.New(`.*ssh.*agent.*`)().FindString(page.String()))
	}
}

// Who is used to -it learns that there is input anyway, and what gives a terminal.
func TestHintOfInteractive(t *testing.T) {
	for _, name := range []string{"run", "exec"} {
		cmd, _, err := (&App{}).root(nil).Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if hint := op.HintOf(FlagError(cmd, cmd.ParseFlags([]string{"-i"}))); !strings.Contains(hint, "; -t gives the command a terminal.") {
			t.Errorf("%s -i: %q", name, hint)
		}
	}
}
