package sandbox

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/wire"
)

type VersionInput struct{}

type VersionOutput struct {
	Version  string `json:"version"` // of the module, "(devel)" in a build from a tree
	Build    string `json:"build"`   // empty in a plain go build
	Wire     int    `json:"wire"`    // the protocol's version
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (VersionInput) Desc() op.Desc {
	return op.Desc{
		Name:    "version",
		CLI:     []string{"version"},
		Summary: "Print the version of Paddock",
		Doc: `Print Paddock's version, its build, the version of the protocol between host and
agent, and the Go version and platform that it was built with and for.`,
		Examples: `  paddock version
  paddock version --json`,
		Hints: op.Hints{ReadOnly: true, Idempotent: true},
	}
}

// Do returns the build information of this program.
func (VersionInput) Do(context.Context, *op.Env, *op.Stream) (VersionOutput, error) {
	out := VersionOutput{
		Version: "(devel)", Build: wire.Build, Wire: wire.Version,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		out.Version = cmp.Or(info.Main.Version, out.Version)
	}
	return out, nil
}

func (v VersionOutput) Render(w io.Writer) error {
	_, err := fmt.Fprintf(w, "paddock %s\nbuild    %s\nwire     %d\ngo       %s\nplatform %s\n",
		v.Version, cmp.Or(v.Build, "none"), v.Wire, v.Go, v.Platform)
	return err
}
