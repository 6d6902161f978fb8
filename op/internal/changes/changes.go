// Package changes has the operations on what commands changed in a workspace of mode "overlay":
// it is looked at, committed to the source or thrown away. Each file is one operation, named
// after it.
package changes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// Change is one path that differs from the source.
type Change struct {
	Kind string          `json:"kind"` // A new, M changed, D gone, T another type, R a renamed directory
	Path osstring.String `json:"path"`
	From osstring.String `json:"from,omitempty"` // where a renamed directory was
}

// Finding is what screening has found about a change.
type Finding struct {
	Path  osstring.String `json:"path"`
	About osstring.String `json:"about,omitempty"` // the path that it is about, if that is another one
	// State is "held" (until its path is accepted), "never" (it never lands) or "marked" (it
	// lands, and deserves a look).
	State string          `json:"state"`
	Tool  string          `json:"tool,omitempty"`
	Why   string          `json:"why"`
	With  osstring.String `json:"with,omitempty"` // a path that must land with it: accepting it is not enough
}

func changesOf(found []paddock.LayerChange) []Change {
	all := make([]Change, len(found))
	for i, c := range found {
		all[i] = Change{Kind: c.Kind, Path: osstring.String(c.Path), From: osstring.String(c.From)}
	}
	return all
}

func findingsOf(found []paddock.LayerFinding) []Finding {
	all := make([]Finding, 0, len(found))
	at := map[string]int{} // of several about one path the most serious
	rank := map[string]int{"marked": 1, "held": 2, "never": 3}
	for _, f := range found {
		state := "marked"
		switch {
		case f.Never:
			state = "never"
		case f.Held:
			state = "held"
		}
		one := Finding{Path: osstring.String(f.Path), About: osstring.String(f.At), State: state, Tool: f.Tool, Why: f.Why, With: osstring.String(f.With)}
		i, met := at[f.Path]
		switch {
		case !met:
			at[f.Path] = len(all)
			all = append(all, one)
		case rank[all[i].State] < rank[state]:
			all[i] = one
		}
	}
	return all
}

// name returns a path for people.
func name(path string) string { return text.QuoteName(path) }

// line returns a finding as a line.
func (f Finding) line() string {
	state := map[string]string{"held": "held back", "never": "never lands", "marked": "look at"}[f.State]
	at := ""
	if f.About != "" {
		at = " (about " + name(string(f.About)) + ")"
	}
	tool := ""
	if f.Tool != "" && !strings.HasPrefix(f.Why, f.Tool+" ") { // else the reason names it
		tool = f.Tool + ": "
	}
	return state + ": " + name(string(f.Path)) + at + ": " + tool + text.Escape(f.Why)
}

// mostLines is how many findings or conflicts are shown to people.
const mostLines = 40

// writeLines writes lines, of many only the first.
func writeLines[T any](w io.Writer, list []T, line func(T) string) error {
	var b strings.Builder
	for _, v := range list[:min(len(list), mostLines)] {
		b.WriteString(line(v) + "\n")
	}
	if more := len(list) - mostLines; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// paths returns paths as they are named on a command line: relative to the workspace, and
// quoted as lists show those that are not plain text.
func paths(field string, list []string) ([]string, error) {
	own := slices.Clone(list)
	for i, p := range own {
		if p == "" {
			return nil, &policy.FieldError{Field: field + "[" + strconv.Itoa(i) + "]", Value: p, Reason: "it is empty", Hint: "leave it out, or write . for everything"}
		}
		if strings.HasPrefix(p, `"`) {
			plain, err := unquote(p)
			if err != nil {
				return nil, &policy.FieldError{Field: field + "[" + strconv.Itoa(i) + "]", Value: p, Reason: err.Error(), Hint: "write it as paddock diff --name-status does"}
			}
			own[i] = plain
		}
		if strings.HasPrefix(own[i], "/") {
			return nil, &policy.FieldError{Field: field + "[" + strconv.Itoa(i) + "]", Value: p, Reason: "it is not relative to the workspace", Hint: "write it as paddock diff --name-status does"}
		}
	}
	return own, nil
}

// within reports whether a clean path is at or below one that was typed.
func within(p, top string) bool {
	top = path.Clean(top)
	return top == "." || p == top || strings.HasPrefix(p, top+"/")
}

// unquote reads a name in the quotes of git, or of lists here.
func unquote(quoted string) (string, error) {
	plain, err := strconv.Unquote(quoted)
	if err != nil || !utf8.ValidString(quoted) {
		return "", errors.New("it begins with a quote, and is not a quoted name")
	}
	return plain, nil
}

// open opens a layer by the name or id of its sandbox, for the caller.
func open(ctx context.Context, env *op.Env, id string, how func(context.Context, string, paddock.Options) (*paddock.Layer, error)) (*paddock.Layer, error) {
	if id == "" {
		return nil, &policy.FieldError{Field: "id", Reason: "no sandbox is named", Hint: "paddock layers lists those that have a layer"}
	}
	opts := env.Options
	opts.Layer.Principal = env.PrincipalName()
	return how(ctx, id, opts)
}
