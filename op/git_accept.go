package op

import (
	"context"
	"fmt"
	"io"

	"github.com/paddock-dev/paddock"
)

// GitAcceptInput asks for what commands added to be taken over.
type GitAcceptInput struct {
	Workspace string `json:"workspace,omitempty" flag:"workspace" short:"w" arg:"DIR" complete:"dir" help:"the workspace of the sandboxes, or the root of a repository (default: the current directory)"`
}

// GitAcceptOutput is what became of it.
type GitAcceptOutput struct {
	Files []GitAcceptedFile `json:"files"`
}

// GitAcceptedFile is one file of git's configuration.
type GitAcceptedFile struct {
	File string `json:"file"`
	// Added are the settings that the file has now, and Left those that it did not
	// take, since it has others of these keys meanwhile.
	Added []string `json:"added"`
	Left  []string `json:"left,omitempty"`
}

func gitAcceptOp() Op {
	return New(Desc{
		Name:    "git_accept",
		CLI:     []string{"git", "accept"},
		Summary: "Add to git's configuration what commands added to their copy of it",
		Doc: `Commands of a sandbox change a copy of .git/config, which ends with the sandbox: the
host's git obeys nothing that they wrote. What they added is printed when the sandbox
ends. This command adds it to the host's file, for all sandboxes over this directory
that have ended, the oldest first:

  remote.NAME.url      where it is an https or ssh URL
  remote.NAME.fetch    where it writes to refs/remotes/NAME/ alone
  branch.NAME.remote, .pushremote, .merge and .rebase
  user.name and user.email

It never changes a value that is there, and takes over nothing else: use git config
for that.`,
		Examples: "  paddock run -- git remote add origin https://example.com/app.git\n  paddock git accept",
		Local:    true,
		Hints:    Hints{Idempotent: true, OpenWorld: true},
	}, gitAccept, renderGitAccept)
}

func gitAccept(_ context.Context, env *Env, in GitAcceptInput, _ *Stream) (GitAcceptOutput, error) {
	dir := in.Workspace
	if dir == "" {
		dir = "."
	}
	found, err := paddock.AcceptGit(dir, env.Options)
	out := GitAcceptOutput{Files: []GitAcceptedFile{}}
	for _, f := range found {
		if f.Added == nil {
			f.Added = []string{}
		}
		out.Files = append(out.Files, GitAcceptedFile(f))
	}
	if err == nil && len(found) == 0 {
		err = &paddock.Error{Message: "cannot accept anything: no sandbox over " + dir + " has added to git's configuration",
			Hint: "name its workspace with -w"}
	}
	return out, err
}

func renderGitAccept(w io.Writer, out GitAcceptOutput) error {
	for _, f := range out.Files {
		if len(f.Added)+len(f.Left) == 0 {
			if _, err := fmt.Fprintf(w, "%s has all of it\n", pathNames([]string{f.File})); err != nil {
				return err
			}
		}
		for _, s := range f.Added {
			if _, err := fmt.Fprintf(w, "%s: added %s\n", pathNames([]string{f.File}), s); err != nil {
				return err
			}
		}
		for _, s := range f.Left {
			if _, err := fmt.Fprintf(w, "%s: left out %s, it has another value\n", pathNames([]string{f.File}), s); err != nil {
				return err
			}
		}
	}
	return nil
}
