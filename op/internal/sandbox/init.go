package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/project"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/specfile"
)

type InitInput struct {
	Dir   *osstring.String `json:"dir,omitempty" arg:"[DIR]" complete:"dir" help:"the directory for the file (default: the current directory)"`
	Print bool             `json:"print,omitempty" flag:"print" help:"print the file, and write nothing"`
	Force bool             `json:"force,omitempty" flag:"force" short:"f" help:"replace a file that exists"`
}

type InitOutput struct {
	File  osstring.String `json:"file,omitempty"` // that was written
	Found []string        `json:"found"`          // names in the directory that the file was made for
	Text  string          `json:"text"`           // of the file
	Test  string          `json:"test,omitempty"` // a command of the project to try

	dir string
}

func (InitInput) Desc() op.Desc {
	return op.Desc{
		Name:    "init",
		CLI:     []string{"init"},
		Summary: "Write a project's file that says what its sandboxes are like",
		Doc: `Write .paddock.yaml: what sandboxes over a directory are like. It is a spec with
comments, for what is found in the directory by its name (go.mod, package.json,
pyproject.toml, Cargo.toml, Makefile, compose.yaml …). No file is opened. It has what
is safe, and the rest as comments to choose from.

The file is not used before "paddock trust", which prints it: look at it first, and
change it. An existing file is only replaced with --force.`,
		Examples: `  paddock init && paddock trust
  paddock init --print`,
		Local: true,
		Hints: op.Hints{OpenWorld: true},
	}
}

// Do writes the file.
func (in InitInput) Do(_ context.Context, env *op.Env, _ *op.Stream) (InitOutput, error) {
	if in.Print && in.Force {
		return InitOutput{}, &policy.FieldError{Field: "force", Reason: "with --print nothing is written", Hint: "give one of them"}
	}
	dir, err := dirOf(in.Dir)
	if err != nil {
		return InitOutput{}, err
	}
	way, err := project.Locate(env.StateDir(), dir)
	if err != nil {
		return InitOutput{}, op.FieldError("dir", dir, err)
	}
	if why := hostpath.Unasked(way.Path); in.Dir == nil && why != "" && !in.Print {
		return InitOutput{}, &policy.FieldError{Field: "dir", Value: way.Path, Reason: "the current directory " + why, Hint: "go to a project's directory, or name one; if you mean this one: paddock init ."}
	}
	out := InitOutput{Found: []string{}, dir: named(in.Dir)}
	var langs []language
	for _, l := range languages() {
		if name := l.in(way.Path); name != "" {
			langs, out.Found = append(langs, l), append(out.Found, name)
			if out.Test == "" {
				out.Test = l.test
			}
		}
	}
	out.Text = projectText(langs, out.Found)
	if in.Print {
		return out, nil
	}
	out.File = osstring.String(filepath.Join(way.Path, specfile.ProjectName))
	return out, in.write(out)
}

// write makes the file. It follows no link, and with --force replaces whatever has the name.
func (in InitInput) write(out InitOutput) error {
	if in.Force {
		if err := hostpath.Replace(string(out.File), 0o644, []byte(out.Text)); err != nil {
			return fmt.Errorf("cannot replace the project's file: %w", err)
		}
		return nil
	}
	f, err := os.OpenFile(string(out.File), os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return &paddock.Error{Message: "cannot write " + text.Escape(string(out.File)) + ": it exists", Hint: "paddock init --print shows what it would say; --force replaces it"}
	}
	if err != nil {
		return fmt.Errorf("cannot write the project's file: %w", err)
	}
	_, err = f.WriteString(out.Text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("cannot write the project's file: %w", err), os.Remove(string(out.File)))
	}
	return nil
}

func (out InitOutput) Render(w io.Writer) error {
	if out.File == "" {
		_, err := io.WriteString(w, out.Text)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "wrote %s, for %s\n", text.Escape(string(out.File)), text.OrNone(strings.Join(out.Found, ", ")))
	fmt.Fprintf(&b, "look at it, then: %s\n", strings.TrimSuffix("paddock trust "+quoted(out.dir), " "))
	if out.Test != "" {
		fmt.Fprintf(&b, "and try: %s\n", strings.ReplaceAll(out.Test, "paddock run", strings.TrimSuffix("paddock run "+workspaceFlag(out.dir), " ")))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// workspaceFlag returns the flag that names a workspace, and nothing for the current directory.
func workspaceFlag(dir string) string {
	if dir == "" {
		return ""
	}
	return "-w " + quoted(dir)
}
