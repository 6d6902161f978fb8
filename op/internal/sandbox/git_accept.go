package sandbox

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

type GitAcceptInput struct {
	Sandbox   string          `json:"sandbox,omitempty" arg:"ID" help:"only what this sandbox added; \"paddock run\" prints the ID"`
	Workspace osstring.String `json:"workspace,omitempty" flag:"workspace" short:"w" arg:"DIR" complete:"dir" help:"the workspace of the sandboxes, or the root of a repository (default: the current directory; with an ID, any)"`
	Yes       bool            `json:"yes,omitempty" flag:"yes" short:"y" help:"add it without asking"`
	Drop      bool            `json:"drop,omitempty" flag:"drop" help:"discard it instead"`
}

type GitAcceptOutput struct {
	Files []GitAcceptedFile `json:"files"`
	// Forgotten lists sandboxes whose record could not be read, and why.
	Forgotten []string `json:"forgotten,omitempty"`

	dropped bool
	again   string // the command that adds what is offered; "" if nothing is
}

// GitAcceptedFile is one file of git's configuration.
type GitAcceptedFile struct {
	File      osstring.String `json:"file"`
	Sandboxes []string        `json:"sandboxes"` // whose commands added settings, the newest first
	// Added are the settings that were added to the file. Offered are settings that could
	// be added: the user has not accepted them yet, or has discarded them.
	Added   []string `json:"added"`
	Offered []string `json:"offered,omitempty"`
	// Left are settings that are never added. Error is why the file could not be changed.
	Left  []GitLeft `json:"left,omitempty"`
	Error string    `json:"error,omitempty"`
}

// GitLeft is a setting that is never added to a file.
type GitLeft struct {
	Setting string `json:"setting"`
	Why     string `json:"why"`
}

func (GitAcceptInput) Desc() op.Desc {
	return op.Desc{
		Name:    "git_accept",
		CLI:     []string{"git", "accept"},
		Summary: "Add to git's configuration what commands added to their copy of it",
		Doc: `Commands in a sandbox change a copy of .git/config, which ends with the sandbox, so
that the host's git obeys nothing that they wrote. What they added is printed when
the sandbox ends. This command prints everything that it would add to the host's
file, and adds it once you say yes: what one sandbox added, by its ID, or what all
sandboxes over this directory added. If several set the same key, the newest counts.

  remote.NAME.url      if it is an https or ssh URL
  remote.NAME.fetch    if NAME has a URL and it writes only to refs/remotes/NAME/
  branch.NAME.remote, .pushremote, .merge and .rebase
  user.name and user.email

Existing values are never changed, a file that includes others is not changed, and
no other settings are added: write those yourself, with git config.

If standard input or standard error is not a terminal, nobody can be asked. Then
--yes or an ID adds the settings; without them they are only printed.

Exit status: 0; 1 if settings could have been added and were not, or a file could
not be changed.`,
		Examples: "  paddock run -- git remote add origin https://example.com/app.git\n  paddock git accept",
		Local:    true,
		Hints:    op.Hints{OpenWorld: true},
	}
}

// Do asks, and adds the settings or discards them.
func (in GitAcceptInput) Do(_ context.Context, env *op.Env, stream *op.Stream) (GitAcceptOutput, error) {
	if in.Yes && in.Drop {
		return GitAcceptOutput{}, &policy.FieldError{Field: "drop", Reason: "with --yes it says two things"}
	}
	what := paddock.GitAccept{Dir: string(in.Workspace), Sandbox: in.Sandbox, Drop: in.Drop}
	if what.Dir == "" && what.Sandbox == "" {
		what.Dir = "."
	}
	agreed := func([]paddock.GitAccepted) (bool, error) { return true, nil }
	switch {
	case in.Yes, stream.Ask == nil && in.Sandbox != "":
		what.Agree = agreed
	case stream.Ask != nil:
		what.Agree = func(offered []paddock.GitAccepted) (bool, error) { return stream.Ask(gitQuestion(offered)) }
	}
	found, err := paddock.AcceptGit(what, env.Options)
	out := GitAcceptOutput{Files: []GitAcceptedFile{}, Forgotten: found.Forgotten, dropped: in.Drop}
	done, failed := false, error(nil)
	for _, f := range found.Files {
		one := GitAcceptedFile{File: osstring.String(f.File), Sandboxes: f.Sandboxes, Added: []string{}}
		switch {
		case f.Err != nil:
			one.Error, failed = f.Err.Error(), f.Err
		case found.Agreed && len(f.Added) > 0:
			one.Added, done = f.Added, true
		default:
			one.Offered = f.Added
		}
		if len(one.Offered) > 0 && !in.Drop {
			out.again = "paddock git accept --yes " + strings.Join(in.chosen(), " ")
		}
		for _, l := range f.Left {
			one.Left = append(one.Left, GitLeft(l))
		}
		out.Files = append(out.Files, one)
	}
	switch {
	case err != nil:
		return out, err
	case failed != nil && !done && out.again == "" && !in.Drop:
		return out, failed
	case len(found.Files) > 0 || len(found.Forgotten) > 0:
		return out, nil
	case in.Sandbox != "":
		return out, &paddock.Error{Message: "cannot accept anything: nothing is kept that sandbox " + in.Sandbox + " added to git's configuration"}
	}
	where := op.PathNames([]string{what.Dir})
	if what.Dir == "." {
		where = "the current directory"
	}
	return out, &paddock.Error{Message: "cannot accept anything: no sandbox over " + where + " has added to git's configuration",
		Hint: "name its workspace with -w, or the sandbox by its ID"}
}

// chosen returns the arguments that select the same sandboxes again.
func (in GitAcceptInput) chosen() (words []string) {
	if in.Workspace != "" || in.Sandbox == "" {
		dir := in.Workspace
		if dir == "" {
			dir = "."
		}
		words = append(words, "-w", op.PathNames([]string{string(dir)}))
	}
	if in.Sandbox != "" {
		words = append(words, in.Sandbox)
	}
	return words
}

// ExitStatus returns 1 if settings were not added that could have been, else 0.
func (out GitAcceptOutput) ExitStatus() int {
	if out.again != "" || !out.dropped && slices.ContainsFunc(out.Files, func(f GitAcceptedFile) bool { return f.Error != "" }) {
		return 1
	}
	return 0
}

// gitQuestion returns the question whether to add the settings.
func gitQuestion(offered []paddock.GitAccepted) string {
	var b strings.Builder
	for _, f := range offered {
		if len(f.Added) == 0 {
			continue
		}
		fmt.Fprintf(&b, "Commands of %s added to their copy of %s:\n", strings.Join(f.Sandboxes, ", "), op.PathNames([]string{f.File}))
		for _, s := range f.Added {
			b.WriteString("  " + s + "\n")
		}
	}
	b.WriteString("Add this to git's configuration?")
	return b.String()
}

func (out GitAcceptOutput) Render(w io.Writer) error {
	var b strings.Builder
	offered := "would add"
	if out.dropped {
		offered = "forgot"
	}
	for _, f := range out.Files {
		name := op.PathNames([]string{string(f.File)})
		if len(f.Added)+len(f.Offered)+len(f.Left) == 0 {
			fmt.Fprintf(&b, "%s has all of it\n", name)
		}
		for _, s := range f.Added {
			fmt.Fprintf(&b, "%s: added %s\n", name, s)
		}
		for _, s := range f.Offered {
			fmt.Fprintf(&b, "%s: %s %s\n", name, offered, s)
		}
		for _, l := range f.Left {
			fmt.Fprintf(&b, "%s: left out %s: %s\n", name, l.Setting, l.Why)
		}
	}
	for _, s := range out.Forgotten {
		fmt.Fprintf(&b, "cannot read what a sandbox added, and forgot it: %s\n", s)
	}
	if out.again != "" {
		fmt.Fprintf(&b, "nothing was added; to add it: %s\n", out.again)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
