package policy

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestCommandsCheck(t *testing.T) {
	tests := []struct {
		name string
		c    Commands
		want string
	}{
		{"the defaults", DefaultCommands(), ""},
		{"nothing", Commands{}, ""},
		{"odd but real names", Commands{Allow: []string{"[", "g++", "python3.11", "x86_64-linux-gnu-gcc"}}, ""},
		{"no name", Commands{Allow: []string{"ls", ""}}, "cannot use commands.allow[1]: it is empty"},
		{"a path", Commands{Allow: []string{"/bin/ls"}}, `cannot use commands.allow[0] "/bin/ls": it is a path: the list holds base names, which are looked up in fixed directories`},
		{"an option", Commands{Allow: []string{"-x"}}, `cannot use commands.allow[0] "-x": it looks like an option`},
		{"a pattern", Commands{Allow: []string{"*"}}, `cannot use commands.allow[0] "*": a name is letters, digits and . _ + - @ : [`},
		{"a directory", Commands{Allow: []string{".."}}, `cannot use commands.allow[0] "..": it names a directory`},
		{"a subcommand", Commands{Subcommands: map[string][]string{"pip": {"in stall"}}},
			`cannot use commands.subcommands.pip[0] "in stall": a name is letters, digits and . _ + - @ : [`},
		{"a program", Commands{Subcommands: map[string][]string{"a/b": nil}},
			`cannot use commands.subcommands."a/b": it is a path: the list holds base names, which are looked up in fixed directories`},
		{"too many", Commands{Allow: strings.Fields(strings.Repeat("a ", 1025))}, "cannot use commands: it has more than 1024 entries"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var errs []error
			for _, e := range tt.c.Check() {
				errs = append(errs, e)
			}
			got := ""
			if err := errors.Join(errs...); err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			_, err := Spec{Commands: &tt.c}.Resolve(Base{Dir: "/d", Home: "/h"})
			if (err == nil) != (tt.want == "") {
				t.Errorf("Resolve gives %v", err)
			}
		})
	}
}

func TestResolveCopiesCommands(t *testing.T) {
	c := DefaultCommands()
	s, err := Spec{Commands: &c}.Resolve(Base{Dir: "/d", Home: "/h"})
	if err != nil || !reflect.DeepEqual(*s.Commands, c) {
		t.Fatalf("%+v, %v", s.Commands, err)
	}
	c.Allow[0], c.Subcommands["pip"][0] = "x", "x"
	if !reflect.DeepEqual(*s.Commands, DefaultCommands()) {
		t.Error("the resolved spec shares the list of the one that was given")
	}
}
