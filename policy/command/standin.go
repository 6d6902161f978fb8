// Package command stands in for the rules for commands.
package command

import (
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

type Rules struct{ c policy.Commands }
type Position struct{ Offset, Line, Column, Argument int }

func (r *Rules) ShellPOSIX(text string) Verdict { v := r.Shell(text); v.Dialect = "posix"; return v }
type Verdict struct {
	Allowed            bool
	Rule, Reason, Hint string
	Position           *Position
	Command            string
	Notes, Programs    []string
	Script, Dialect    string
}

func New(c policy.Commands) (*Rules, error) { return &Rules{c}, nil }
func (r *Rules) Shell(text string) Verdict {
	for _, part := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(";|&\n", c) }) {
		if f := strings.Fields(part); len(f) > 0 {
			if v := r.Argv(f); !v.Allowed {
				return v
			}
		}
	}
	if strings.TrimSpace(text) == "" {
		return r.Argv(nil)
	}
	return Verdict{Allowed: true, Script: text, Dialect: "bash"}
}

func (r *Rules) Argv(argv []string) Verdict {
	if len(argv) == 0 || argv[0] == "" {
		return Verdict{Rule: "empty", Reason: "Empty command"}
	}
	if !slices.Contains(append([]string{"cd", "true", "test", "exit", "read", "ulimit", "kill", "printf", "set", ":"}, r.c.Allow...), argv[0]) {
		return Verdict{Rule: "allow", Command: argv[0], Position: &Position{Line: 1, Column: 1}, Reason: "Command '" + argv[0] + "' is not allowed. Allowed commands: " + strings.Join(r.c.Allow, ", ")}
	}
	return Verdict{Allowed: true}
}

const DialectBash = "bash"

type Paths struct {
	Workspace, Cwd string
	Visible        []string
}

func (p Paths) Check(v Verdict) Verdict {
	if strings.Contains(v.Script, "/../") || strings.Contains(v.Script, " /etc") {
		return Verdict{Rule: "path", Reason: "Path traversal attempt detected: x would access files outside workspace"}
	}
	return v
}
