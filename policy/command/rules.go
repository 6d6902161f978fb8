package command

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock/policy"
)

// Rules are a list of programs and of blocked subcommands. The zero value
// refuses every command. Rules never change: what alters them returns others.
type Rules struct {
	allow   map[string]bool
	blocked map[string]map[string]bool
	names   string   // sorted, with commas, for refusals
	given   *process // whose variables are in the environment of what is run, nil for none
}

// New makes rules of a list. Its error joins one [*policy.FieldError] for each
// name that cannot be used: one that no program can have, and builtins of the
// shell that no list makes safe.
func New(c policy.Commands) (*Rules, error) {
	var errs []error
	for _, e := range c.Check() {
		errs = append(errs, e)
	}
	for _, name := range c.Allow {
		if b, ok := builtins[name]; ok && b.never != "" {
			errs = append(errs, &policy.FieldError{
				Field: "commands.allow", Value: name, Reason: b.never,
				Hint: "leave it out: no list makes it safe",
			})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r := &Rules{allow: make(map[string]bool, len(c.Allow)), blocked: make(map[string]map[string]bool, len(c.Subcommands))}
	for _, name := range c.Allow {
		r.allow[name] = true
	}
	for name, words := range c.Subcommands {
		r.blocked[name] = make(map[string]bool, len(words))
		for _, word := range words {
			r.blocked[name][word] = true
		}
	}
	r.names = strings.Join(slices.Sorted(maps.Keys(r.allow)), ", ")
	return r, nil
}

// List is the list that the rules stand for, sorted.
func (r *Rules) List() policy.Commands {
	c := policy.Commands{Allow: slices.Sorted(maps.Keys(r.allow)), Subcommands: make(map[string][]string, len(r.blocked))}
	for name, words := range r.blocked {
		c.Subcommands[name] = slices.Sorted(maps.Keys(words))
	}
	return c
}

// With returns rules that allow more programs.
func (r *Rules) With(names ...string) (*Rules, error) {
	c := r.List()
	c.Allow = append(c.Allow, names...)
	return New(c)
}

// Given returns rules for what is run with these variables in its environment,
// beside those of a sandbox: they may hold anything.
func (r *Rules) Given(variables ...string) *Rules {
	own := *r
	own.given = newProcess(nil)
	for _, name := range variables {
		own.given.handed[name] = true
	}
	return &own
}

// Without returns rules that do not allow these programs.
func (r *Rules) Without(names ...string) (*Rules, error) {
	c := r.List()
	c.Allow = slices.DeleteFunc(c.Allow, func(name string) bool { return slices.Contains(names, name) })
	return New(c)
}

// Block returns rules that refuse these subcommands of a program as well.
func (r *Rules) Block(name string, words ...string) (*Rules, error) {
	c := r.List()
	c.Subcommands[name] = append(c.Subcommands[name], words...)
	return New(c)
}

// Unblock returns rules that do not refuse these subcommands of a program.
func (r *Rules) Unblock(name string, words ...string) (*Rules, error) {
	c := r.List()
	c.Subcommands[name] = slices.DeleteFunc(c.Subcommands[name], func(word string) bool { return slices.Contains(words, word) })
	if len(c.Subcommands[name]) == 0 {
		delete(c.Subcommands, name)
	}
	return New(c)
}
