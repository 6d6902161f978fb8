package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/osstring"
	"github.com/paddock-dev/paddock/internal/text"
	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/op/internal/output"
	"github.com/paddock-dev/paddock/policy"
)

type CacheListInput struct {
	Workspace osstring.String `json:"workspace,omitempty" flag:"workspace" short:"w" arg:"DIR" complete:"dir" help:"only the caches of this workspace (default: all)"`
	Tool      string          `json:"tool,omitempty" flag:"tool" arg:"TOOL" help:"only those of this tool: cargo, ccache, go, npm, pip or uv; or home"`
}

type CacheListOutput struct {
	Caches []CacheEntry `json:"caches"`
}

// CacheEntry is the cache of a tool, or a HOME.
type CacheEntry struct {
	Tool      string          `json:"tool"`                // "home" is a HOME
	Workspace osstring.String `json:"workspace,omitempty"` // unknown if the record is damaged
	Principal string          `json:"principal,omitempty"`
	Dir       osstring.String `json:"dir"`
	// Bytes is what it takes on the disk, as measured within a day; null: it was not
	// measured. Partial: it takes more.
	Bytes    *int64    `json:"bytes"`
	Partial  bool      `json:"partial,omitempty"`
	LastUsed time.Time `json:"last_used"` // when a sandbox last began to use it
	InUse    bool      `json:"in_use"`
}

func (CacheListInput) Desc() op.Desc {
	return op.Desc{
		Name:    "cache_list",
		CLI:     []string{"cache", "list"},
		Summary: "List the caches that stay between sandboxes",
		Doc: `List the caches of tools, and the HOMEs, that stay between sandboxes: for which
workspace and which principal each is, its size, and when a sandbox last began to
use it. Starts measure the sizes at most once a day, and this command what they have
not measured yet.

All together may have 10GiB, or PADDOCK_CACHE_MAX. Beyond that, those that were used
least recently are removed while a sandbox runs. A HOME is never removed so.`,
		Examples: `  paddock cache list
  paddock cache list --json -w . | jq '[.caches[].bytes] | add'`,
		Local:  true,
		OfUser: true,
		Hints:  op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do lists them.
func (in CacheListInput) Do(ctx context.Context, env *op.Env, _ *op.Stream) (CacheListOutput, error) {
	found, err := paddock.Caches(ctx, paddock.CacheChoice{Workspace: string(in.Workspace), Tool: in.Tool}, env.Options)
	out := CacheListOutput{Caches: []CacheEntry{}}
	for _, c := range found {
		out.Caches = append(out.Caches, cacheEntry(c))
	}
	return out, err
}

func cacheEntry(c paddock.Cache) CacheEntry {
	e := CacheEntry{Tool: c.Tool, Workspace: osstring.String(c.Workspace), Principal: c.Principal, Dir: osstring.String(c.Dir), Partial: c.Partial, LastUsed: c.Used.UTC(), InUse: c.InUse}
	if c.Measured {
		e.Bytes = &c.Bytes
	}
	return e
}

// size returns the size for people.
func (e CacheEntry) size() string {
	if e.Bytes == nil {
		return "-"
	}
	const step = int64(policy.MiB)
	size := policy.Size((*e.Bytes + step - 1) / step * step).String()
	if e.Partial {
		size = "over " + size
	}
	return size
}

func (out CacheListOutput) Render(w io.Writer) error {
	if len(out.Caches) == 0 {
		_, err := fmt.Fprintln(w, "no cache is kept")
		return err
	}
	return output.Table(w, func(row output.Row) {
		row("TOOL\tSIZE\tLAST USED\tPRINCIPAL\tWORKSPACE")
		for _, c := range out.Caches {
			used := c.LastUsed.Local().Format("2006-01-02 15:04")
			if c.InUse {
				used = "in use"
			}
			row("%s\t%s\t%s\t%s\t%s", text.Escape(c.Tool), c.size(), used, text.OrDash(text.Escape(c.Principal)), text.Escape(string(cmp.Or(c.Workspace, c.Dir))))
		}
	})
}
