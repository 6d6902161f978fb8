package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

type CacheRemoveInput struct {
	Workspace *osstring.String `json:"workspace,omitempty" flag:"workspace" short:"w" arg:"DIR" complete:"dir" help:"the workspace whose caches are removed (default: the current directory)"`
	Tool      *string          `json:"tool,omitempty" flag:"tool" arg:"TOOL" help:"only those of this tool: cargo, ccache, go, npm, pip or uv; or home (default: all tools, but not home)"`
	All       bool             `json:"all,omitempty" flag:"all" help:"the caches of all workspaces"`
}

type CacheRemoveOutput struct {
	Removed []CacheEntry `json:"removed"`
	// Left are caches that could not be removed.
	Left []CacheLeft `json:"left,omitempty"`
}

// CacheLeft is a cache that could not be removed.
type CacheLeft struct {
	CacheEntry
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
}

func (CacheRemoveInput) Desc() op.Desc {
	return op.Desc{
		Name:    "cache_rm",
		CLI:     []string{"cache", "rm"},
		Summary: "Remove caches that stay between sandboxes",
		Doc: `Remove the caches of tools that stay between sandboxes, of all principals: those of
the workspace, of one tool, or all. What commands wrote into a cache decides what
later builds over the same workspace do: remove the caches of a workspace in which
something hostile has run.

A cache that a sandbox uses stays; it can be removed once that has ended. A HOME
that stays (--home keep) is removed only by --tool home.

Exit status: 0; 1 if a cache could not be removed.`,
		Examples: `  paddock cache rm
  paddock cache rm --tool go -w ~/src/app
  paddock cache rm --all`,
		Local: true,
		Hints: op.Hints{Destructive: true, Idempotent: true, LongRunning: true},
	}
}

// Do removes them.
func (in CacheRemoveInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (CacheRemoveOutput, error) {
	what := paddock.CacheChoice{}
	err := errors.Join(op.SetText(&what.Workspace, in.Workspace, "workspace"), op.SetText(&what.Tool, in.Tool, "tool"))
	switch {
	case err != nil:
		return CacheRemoveOutput{}, err
	case in.All && in.Workspace != nil:
		return CacheRemoveOutput{}, &policy.FieldError{Field: "all", Reason: "with --workspace it says two things", Hint: "leave one of the two out"}
	case !in.All && in.Workspace == nil:
		what.Workspace = "."
	}
	found, err := paddock.RemoveCaches(ctx, what, env.Options)
	out := CacheRemoveOutput{Removed: []CacheEntry{}}
	for _, c := range found {
		if c.Err == nil {
			out.Removed = append(out.Removed, cacheEntry(c.Cache))
			continue
		}
		left := CacheLeft{CacheEntry: cacheEntry(c.Cache), Error: c.Err.Error()}
		if e := (*paddock.Error)(nil); errors.As(c.Err, &e) {
			left.Hint = e.Hint
		}
		out.Left = append(out.Left, left)
	}
	return out, err
}

// ExitStatus returns 1 if a cache could not be removed, else 0.
func (out CacheRemoveOutput) ExitStatus() int {
	if len(out.Left) > 0 {
		return 1
	}
	return 0
}

// Failed reports whether a cache could not be removed.
func (out CacheRemoveOutput) Failed() bool { return len(out.Left) > 0 }

func (out CacheRemoveOutput) Render(w io.Writer) error {
	var b strings.Builder
	for _, c := range out.Removed {
		fmt.Fprintf(&b, "removed %s of %s (%s)\n", text.Escape(c.Tool), text.Escape(string(cmp.Or(c.Workspace, c.Dir))), c.size())
	}
	hints := []string{}
	for _, c := range out.Left {
		fmt.Fprintf(&b, "%s\n", text.Escape(c.Error))
		if c.Hint != "" && !slices.Contains(hints, c.Hint) {
			hints = append(hints, c.Hint)
		}
	}
	for _, hint := range hints {
		fmt.Fprintf(&b, "hint: %s\n", hint)
	}
	if b.Len() == 0 {
		b.WriteString("there was no cache to remove\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
