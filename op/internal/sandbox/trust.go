package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/network"
	"github.com/paddock-dev/paddock/op/internal/patch"
	"github.com/paddock-dev/paddock/op/internal/project"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

type TrustInput struct {
	Dir    *osstring.String `json:"dir,omitempty" arg:"[DIR]" complete:"dir" help:"the directory with the file (default: the current directory)"`
	Yes    bool             `json:"yes,omitempty" flag:"yes" short:"y" help:"trust it without asking"`
	List   bool             `json:"list,omitempty" flag:"list" help:"list what is trusted instead"`
	Remove bool             `json:"remove,omitempty" flag:"remove" help:"no longer trust the directory's file"`
}

type TrustOutput struct {
	File    osstring.String `json:"file,omitempty"`
	Trusted bool            `json:"trusted"`
	Removed bool            `json:"removed,omitempty"`
	// Says is what the file changes, the network first. Shown is its text, or the difference
	// to what was trusted before. Both are escaped for terminals.
	Says  []string `json:"says,omitempty"`
	Shown []string `json:"shown,omitempty"`
	// Projects is the list of trusted files, if it was asked for.
	Projects []TrustedProject `json:"projects,omitempty"`

	dir   string
	was   bool // it was trusted before this call
	asked bool
}

// TrustedProject is a line of the list of trusted files.
type TrustedProject struct {
	Dir   osstring.String `json:"dir"`
	Since time.Time       `json:"since"`
	// State is "trusted", "changed" (the file or the directory is another), "gone", or why the
	// file cannot be used.
	State string `json:"state"`
}

// The states of a trusted file.
const (
	stateTrusted = "trusted"
	stateChanged = "changed"
	stateGone    = "gone"
)

func (TrustInput) Desc() op.Desc {
	return op.Desc{
		Name:    "trust",
		CLI:     []string{"trust"},
		Summary: "Let a project's own file say what its sandboxes are like",
		Doc: `Print the project's file of a directory, .paddock.yaml, and what it changes, and trust
it once you say yes. From then on "paddock run", "paddock plan", "paddock session -w"
and "paddock mcp" over this directory are as the file says; flags override it. If the
file changes, it is not used until you trust it again: this command then prints the
difference. What counts is the content, and the directory.

A file is the word of whoever wrote the repository, or of commands that ran in it. It
can give commands the network, variables, limits and rules. It can never name files
or programs of this host, choose another backend, or weaken a wall: such a file is
refused, with the line.

If standard input or standard error is not a terminal, nobody can be asked. Then --yes
trusts the file; without it, it is only printed.

Exit status: 0; 1 if the file could have been trusted and was not.`,
		Examples: `  paddock init && paddock trust

  # what is trusted, and the end of that
  paddock trust --list
  paddock trust --remove ~/src/app`,
		Local: true,
		Hints: op.Hints{OpenWorld: true, Idempotent: true},
	}
}

// Do shows the file, asks, and adds it to the list of trusted files.
func (in TrustInput) Do(ctx context.Context, env *op.Env, stream *op.Stream) (TrustOutput, error) {
	dir, err := dirOf(in.Dir)
	if err == nil {
		err = in.check()
	}
	if err != nil {
		return TrustOutput{}, err
	}
	store, err := project.Open(env.StateDir())
	switch {
	case err != nil:
		return TrustOutput{}, err
	case in.List:
		return in.list(env, store)
	case in.Remove:
		return in.remove(ctx, env, store, dir)
	}
	file, err := project.Read(env.StateDir(), dir)
	if err != nil {
		return TrustOutput{}, unread(err, dir)
	}
	spec, err := readProject(env, file)
	if err != nil {
		return TrustOutput{}, err
	}
	before, err := store.Find(file.Dir)
	if err != nil {
		return TrustOutput{}, err
	}
	out := TrustOutput{File: osstring.String(file.Path()), dir: named(in.Dir), Says: says(spec), was: before.Same(file)}
	if out.was {
		out.Trusted = true
		return out, nil
	}
	out.Shown = shown(file, before)
	agreed := in.Yes
	if !agreed && stream.Ask != nil {
		out.asked = true
		if agreed, err = stream.Ask(out.text() + question(spec)); err != nil {
			return out, err
		}
	}
	if agreed {
		err = store.Trust(ctx, file)
		out.Trusted = err == nil
	}
	return out, err
}

// question returns the question, which repeats what matters most: a thousand variables in between
// would move it off the screen.
func question(spec policy.Spec) string {
	switch spec.Network.Asked() {
	case policy.NetworkHost:
		return "Trust this file, which gives commands this host's network?"
	case policy.NetworkAllow:
		return fmt.Sprintf("Trust this file, which lets commands reach %d hosts?", len(spec.Network.Allow))
	}
	return "Trust this file?"
}

func (in TrustInput) check() error {
	for _, one := range []struct {
		is   bool
		flag string
	}{{in.List && in.Yes, "list"}, {in.List && in.Remove, "list"}, {in.Remove && in.Yes, "remove"}, {in.List && in.Dir != nil, "list"}} {
		if one.is {
			return &policy.FieldError{Field: one.flag, Reason: "with what else is given it says two things", Hint: "give one of them"}
		}
	}
	return nil
}

// unread returns the error of a file that could not be read.
func unread(err error, where string) error {
	unfit := (*project.UnfitError)(nil)
	switch {
	case errors.As(err, &unfit):
		return err
	case errors.Is(err, fs.ErrNotExist) && project.IsDir(where):
		return &paddock.Error{Message: "cannot trust the project's file: there is no " + specfile.ProjectName + " in " + text.Escape(where), Hint: "paddock init writes one"}
	default:
		return op.FieldError("dir", where, err)
	}
}

// readProject returns the spec in a project's file. It must be valid as a whole.
func readProject(env *op.Env, file *project.File) (policy.Spec, error) {
	parsed, err := specfile.ParseProject(file.Path(), file.Text)
	if err != nil {
		return policy.Spec{}, err
	}
	whole := parsed.Spec
	whole.Workspace.Source = file.Dir
	if _, err = paddock.Resolve(whole, env.Options); err != nil {
		return policy.Spec{}, parsed.Locate(err)
	}
	return parsed.Spec, nil
}

// dirOf returns the directory that was named, or the current one. An empty name, such as that of
// a variable that is not set, is an error.
func dirOf(named *osstring.String) (dir string, err error) {
	dir = "."
	err = op.SetText(&dir, named, "dir")
	return dir, err
}

// named returns the directory that was named, or "".
func named(dir *osstring.String) string {
	if dir == nil {
		return ""
	}
	return string(*dir)
}

// shown returns the lines of a file, or the difference to what was trusted before.
func shown(file *project.File, before *project.Trusted) (lines []string) {
	all := file.Lines()
	if before != nil {
		if diff := patch.Diff([]byte(before.Text), file.Text); diff != "" {
			all = strings.Split(strings.TrimSuffix(diff, "\n"), "\n")
		}
	}
	for _, line := range all {
		lines = append(lines, text.Escape(line))
	}
	return lines
}

// list returns what is trusted, and whether it still is.
func (in TrustInput) list(env *op.Env, store *project.Store) (TrustOutput, error) {
	all, err := store.List()
	out := TrustOutput{Projects: []TrustedProject{}}
	for _, t := range all {
		one := TrustedProject{Dir: osstring.String(t.Dir), Since: t.Since, State: stateTrusted}
		file, err := project.Read(env.StateDir(), string(one.Dir))
		unfit := (*project.UnfitError)(nil)
		switch {
		case errors.As(err, &unfit):
			one.State = text.Escape(unfit.Reason)
		case err != nil:
			one.State = stateGone
		case !t.Same(file):
			one.State = stateChanged
		}
		out.Projects = append(out.Projects, one)
	}
	return out, err
}

// remove ends the trust in a directory, which need not exist any more.
func (in TrustInput) remove(ctx context.Context, env *op.Env, store *project.Store, dir string) (TrustOutput, error) {
	path, err := project.PathOf(env.StateDir(), dir)
	if err != nil {
		return TrustOutput{}, op.FieldError("dir", dir, err)
	}
	found, err := store.Remove(ctx, path)
	if err == nil && !found {
		err = &paddock.Error{Message: "cannot remove what is not there: nothing is trusted in " + text.Escape(path), Hint: "paddock trust --list"}
	}
	return TrustOutput{File: osstring.String((&project.File{Dir: path}).Path()), Removed: found}, err
}

// ExitStatus returns 1 if the file was not trusted, else 0.
func (out TrustOutput) ExitStatus() int {
	if out.File != "" && !out.Trusted && !out.Removed {
		return 1
	}
	return 0
}

// text returns the file, or what changed of it, and what it changes, in lines.
func (out TrustOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n", text.Escape(string(out.File)))
	for _, line := range out.Shown {
		b.WriteString("  | " + line + "\n")
	}
	if b.WriteString("Sandboxes over this directory, those of models too:\n"); len(out.Says) == 0 {
		b.WriteString("  it changes nothing\n")
	}
	for _, line := range out.Says {
		b.WriteString("  " + line + "\n")
	}
	return b.String()
}

func (out TrustOutput) Render(w io.Writer) error {
	var b strings.Builder
	again := strings.TrimSuffix("paddock trust --yes "+quoted(out.dir), " ")
	switch {
	case out.Projects != nil:
		for _, p := range out.Projects {
			fmt.Fprintf(&b, "%s  %s  %s\n", p.Since.Format(time.RFC3339), p.State, text.QuoteName(string(p.Dir)))
		}
	case out.File == "":
	case out.Removed:
		fmt.Fprintf(&b, "no longer trusted: %s\n", text.Escape(string(out.File)))
	case out.was:
		fmt.Fprintf(&b, "already trusted: %s\n", text.Escape(string(out.File)))
	case out.asked && out.Trusted:
		fmt.Fprintf(&b, "trusted: %s\n", text.Escape(string(out.File)))
	case out.asked:
		fmt.Fprintf(&b, "nothing was trusted; to trust it: %s\n", again)
	case out.Trusted:
		fmt.Fprintf(&b, "%strusted: %s\n", out.text(), text.Escape(string(out.File)))
	default:
		fmt.Fprintf(&b, "%snothing was trusted; to trust it: %s\n", out.text(), again)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// quoted returns a directory as a word for a shell that is no flag, and nothing for none.
func quoted(dir string) string {
	switch {
	case dir == "":
		return ""
	case dir[0] == '-':
		dir = "./" + dir
	}
	return policy.ShellWord(dir)
}

// maxSaid bounds how much of a value is repeated, in bytes: the text of the file has all of it.
const maxSaid = 200

// plainWords says what settings mean. Others are repeated as they are written.
var plainWords = map[string]string{
	"network: host":        "network: commands can use this host's network, with everything that listens on it",
	"network: none":        "network: none but loopback",
	"network: allow":       "network: commands can reach hosts by name, these and no others:",
	"workspace.mode: copy": "workspace: commands change a copy in memory, which ends with the sandbox",
	"workspace.mode: bind": "workspace: commands change the directory itself",
	"workspace.access: ro": "workspace: commands cannot change the directory",
	"workspace.access: rw": "workspace: commands can change the directory",
	"level: full":          "level: full, as without the file",
	"seccomp: default":     "seccomp: default, as without the file",
	"seccomp: strict":      "seccomp: strict, for programs that need little",
}

// says returns what a project's file sets, the network first. All of it is there, so that
// nothing can hide among comments.
func says(s policy.Spec) (lines []string) {
	add := func(name, value string) {
		line := name + ": " + value
		if plain, ok := plainWords[line]; ok {
			line = plain
		}
		lines = append(lines, text.Escape(text.Truncate(line, maxSaid)))
	}
	if mode := s.Network.Asked(); mode != "" {
		add("network", mode)
	}
	for _, rule := range s.Network.Allow {
		if len(rule.Ports) == 0 {
			rule.Ports = policy.DefaultPorts()
		}
		add("network", "open "+rule.Host+", ports "+network.Opening(rule))
	}
	for _, deny := range s.Network.Deny {
		add("network", strings.TrimSuffix("closed "+deny.Host+": "+deny.Reason, ": "))
	}
	for _, port := range s.Network.Publish {
		add("network", "port "+port+" is published on a loopback address of this host")
	}
	if n := s.Network.Limits.Connections; n > 0 {
		add("network", fmt.Sprintf("at most %d connections at once", n))
	}
	if n := s.Network.Limits.BytesOut; n > 0 {
		add("network", "at most "+n.String()+" sent")
	}
	for _, one := range [][2]string{{"workspace.mode", s.Workspace.Mode}, {"workspace.access", s.Workspace.Access},
		{"level", s.Level}, {"seccomp", s.Seccomp}, {"hostname", s.Hostname},
		{"caches", strings.Join(s.Caches, ", ")}} {
		if one[1] != "" {
			add(one[0], one[1])
		}
	}
	if s.NoToolchains {
		add("toolchains", "none of your home's")
	}
	for name, value := range s.Limits.Written() {
		add("limit of "+name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		add("variable", name+"="+s.Env[name])
	}
	if s.Commands != nil {
		add("commands", "only these programs can be started: "+text.OrNone(strings.Join(s.Commands.Allow, ", ")))
		for _, name := range slices.Sorted(maps.Keys(s.Commands.Subcommands)) {
			add("commands", name+" without "+strings.Join(s.Commands.Subcommands[name], ", "))
		}
	}
	for _, r := range s.Redaction {
		words := slices.DeleteFunc([]string{r.Name, r.Type, r.Pattern, r.Strategy}, func(s string) bool { return s == "" })
		add("replaced in output", strings.Join(words, ", "))
	}
	return lines
}
