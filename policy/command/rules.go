// Package command judges command texts and argument lists by a list of the
// programs that they may start.
//
//	rules, err := command.New(policy.DefaultCommands())
//	…
//	verdict := rules.Shell("ls; curl example.com")
//	if !verdict.Allowed { … verdict.Reason, verdict.Position … }
//	run("bash", "-c", verdict.Script) // what was judged, and nothing else
//
// A text is parsed with the grammar of the shell that will run it. Every simple command
// in it is judged: in lists, pipelines, substitutions, functions, here-documents,
// conditions, and in the texts and commands that wrappers such as env, xargs and
// find -exec start. Constructs that cannot be judged are refused: names that are known only
// at run time, eval and similar builtins, assignments of variables that change what later
// commands do, arithmetic on unknown text.
//
// The list is a guard-rail for well-meaning users. An allowed interpreter runs anything,
// a configuration file names programs, and only the wall of the sandbox stops them. awk and
// sed are interpreters: awk has system and pipes, sed the command e. So is every program
// that builds: go, cargo, make and compilers run programs that a Makefile, a build script, a
// plugin or a directive in a source names. A note in the verdict says so. The promise is:
// for an allowed text, the shell itself starts no program that the list denies, provided
// that the environment and the files of programs have not been changed to start others.
//
// [Rules] are immutable and may be used by several goroutines. A check is a function of
// text alone: it reads no file and takes time in proportion to the text, which may have
// [MaxText] bytes.
//
// [Paths] is independent of the list: it refuses, early and readably, arguments that
// plainly point outside the sandbox. [RulesFile] follows a file.
package command

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

// Rules hold a list of programs and of blocked subcommands. The zero value refuses
// every command. Rules never change: methods that alter them return others.
type Rules struct {
	allow   map[string]bool
	blocked map[string]map[string]bool
	names   string   // sorted, with commas, for refusals
	given   *process // whose variables are in the environment of what runs, nil for none
}

// New makes rules of a list. Its error joins one [*policy.FieldError] for each name
// that no program can have, and for each builtin of the shell that no list makes safe.
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

// List returns the list that the rules were made of, sorted.
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

// Given returns rules for commands that get these variables in their environment,
// besides those of a sandbox. The variables may hold anything.
func (r *Rules) Given(variables ...string) *Rules {
	own := *r
	own.given = newProcess(nil)
	for _, name := range variables {
		own.given.exported[name] = true
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

// RulesFile reads the rules in the commands section of a spec file, and reads them
// again when the file has changed. It may be used by several goroutines.
type RulesFile struct {
	path string

	mu    sync.Mutex
	rules *Rules
	err   error // of the last read
	seen  fileState
}

// fileState distinguishes versions of a file.
type fileState struct {
	info os.FileInfo
	size int64
	time time.Time
}

// Open reads the rules in the file at path. If they cannot be read, it returns an error
// and a RulesFile that can be used all the same: it refuses every command until the file
// can be read.
func Open(path string) (*RulesFile, error) {
	f := &RulesFile{path: path, rules: &Rules{}}
	_, err := f.Rules()
	return f, err
}

// Rules returns the newest rules. It reads them again if the file is another one, or has
// another time or size. If that fails, it returns the last good ones together with an
// error.
func (f *RulesFile) Rules() (*Rules, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		f.seen, f.err = fileState{}, fmt.Errorf("cannot read the rules for commands: %w", err)
		return f.rules, f.err
	}
	now := fileState{info, info.Size(), info.ModTime()}
	if now.same(f.seen) {
		return f.rules, f.err
	}
	rules, err := readRules(f.path)
	f.seen, f.err = now, err
	if err == nil {
		f.rules = rules
	}
	return f.rules, f.err
}

// same reports whether both are the same version of the same file.
func (s fileState) same(old fileState) bool {
	return old.info != nil && os.SameFile(s.info, old.info) && s.size == old.size && s.time.Equal(old.time)
}

// readRules reads the rules in a spec file.
func readRules(file string) (*Rules, error) {
	f, err := specfile.Read(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot read the rules for commands: %w", err)
		}
		return nil, err
	}
	if f.Spec.Commands == nil {
		return nil, &policy.FieldError{
			Field: "commands", File: file, Reason: "the file has no such section",
			Hint: "write commands: {allow: [ls, cat]}",
		}
	}
	rules, err := New(*f.Spec.Commands)
	return rules, f.Locate(err)
}
