package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/table"
)

type treeInput struct {
	First string   `json:"first" arg:"FIRST" help:"one"`
	Rest  []string `json:"rest" arg:"REST..." help:"all others"`
	Loud  bool     `json:"loud,omitempty" flag:"loud" help:"a switch"`
}

// treeOps are operations at several depths; the deepest comes first.
func treeOps() []op.Op {
	var ops []op.Op
	for _, path := range []string{"group deep leaf", "group leaf", "plain", "plain below"} {
		ops = append(ops, op.New(op.Desc{Name: strings.ReplaceAll(path, " ", "_"), CLI: strings.Fields(path)},
			func(context.Context, *op.Env, treeInput, *op.Stream) (string, error) { return path, nil },
			func(w io.Writer, out string) error { _, err := fmt.Fprintln(w, out); return err }))
	}
	return ops
}

func TestCommandsOfSeveralWords(t *testing.T) {
	tests := []struct {
		args, found string
		withFlags   bool
		wantErr     string
	}{
		{"group deep leaf", "paddock group deep leaf", true, ""},
		{"group leaf --loud", "paddock group leaf", true, ""},
		{"plain", "paddock plain", true, ""},
		{"plain below --loud x", "paddock plain below", true, ""},
		{"plain --loud below", "paddock plain below", true, ""},
		{"group", "paddock group", false, ""},
		{"group nothing", "paddock group", false, `cannot do "group nothing": there is no such command`},
		{"group deep nothing", "paddock group deep", false, `cannot do "group deep nothing": there is no such command`},
	}
	for _, tt := range tests {
		args := strings.Fields(tt.args)
		root := &cobra.Command{Use: "paddock"}
		(&App{}).addCommands(root, treeOps(), args)
		cmd, rest, err := root.Find(args)
		if err != nil || cmd.CommandPath() != tt.found || (cmd.Flags().Lookup("loud") != nil) != tt.withFlags {
			t.Errorf("%q finds %q, %v; want %q", tt.args, cmd.CommandPath(), err, tt.found)
		}
		if tt.wantErr == "" {
			continue
		}
		if err := cmd.RunE(cmd, rest); err == nil || err.Error() != tt.wantErr {
			t.Errorf("%q gives %v, want %q", tt.args, err, tt.wantErr)
		}
	}
}

func TestArgumentsFillTheFieldsWithoutFlags(t *testing.T) {
	tests := []struct{ args, want string }{
		{"", `{"rest":[]}`},
		{"a", `{"first":"a","rest":[]}`},
		{"a b c", `{"first":"a","rest":["b","c"]}`},
	}
	for _, tt := range tests {
		got, err := AddFlags(&cobra.Command{}, "group deep leaf", treeOps()[0].Fields()).Encode(strings.Fields(tt.args))
		if err != nil || string(got) != tt.want {
			t.Errorf("%q is %s, %v; want %s", tt.args, got, err, tt.want)
		}
	}
}

// TestExamplesOfGroups: the examples of a command that only holds others name commands and flags
// that there are.
func TestExamplesOfGroups(t *testing.T) {
	examples := 0
	for name, group := range table.Groups() {
		for line := range strings.Lines(group.Examples) {
			words := strings.Fields(line)
			if words[0] == "#" {
				continue
			}
			examples++
			root := &cobra.Command{Use: "paddock"}
			(&App{}).addCommands(root, table.All(), words[1:])
			cmd, rest, err := root.Find(words[1:])
			if err == nil {
				err = cmd.ParseFlags(rest)
			}
			if err != nil || !strings.HasPrefix(cmd.CommandPath(), "paddock "+name+" ") {
				t.Errorf("%s: %q finds %s, %v", name, line, cmd.CommandPath(), err)
			}
		}
	}
	if examples < 3 {
		t.Errorf("there are %d", examples)
	}
}

// The help text shows each command in a part that says what it is for.
func TestEveryCommandHasAPart(t *testing.T) {
	for _, cmd := range (&App{}).root(nil).Commands() {
		if cmd.GroupID == "" && !slices.Contains([]string{"completion", "help", "man"}, cmd.Name()) {
			t.Errorf("%s stands among additional commands", cmd.Name())
		}
	}
}
