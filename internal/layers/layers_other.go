//go:build !linux

package layers

import (
	"context"
	"errors"
	"io"

	"github.com/paddock-dev/paddock/backend/hostpath"
	"github.com/paddock-dev/paddock/internal/elsewhere"
)

var errElsewhere = errors.New(elsewhere.Problem)

// Layer stands for a layer, which this system does not have.
type Layer struct{ Principal string }

func Make(context.Context, string, New) (Held, error)               { return nil, errElsewhere }
func Reopen(context.Context, string, string, string) (Held, error)  { return nil, errElsewhere }
func Places(string) []string                                        { return nil }
func Committed(string) ([]hostpath.Committed, error)                { return nil, nil }
func List(string) ([]Info, error)                                   { return nil, nil }
func Open(context.Context, string, string) (*Layer, error)          { return nil, errElsewhere }
func Look(string, string) (*Layer, error)                           { return nil, errElsewhere }
func Upper(string, string) string                                   { return "" }
func IsInUse(error) bool                                            { return false }
func IsUnknown(error) bool                                          { return false }
func Explain(string, error) (message, hint string)                  { return "", "" }
func (*Layer) Close()                                               {}
func (*Layer) Info() Info                                           { return Info{} }
func (*Layer) Remove(context.Context) error                         { return errElsewhere }
func (*Layer) Begin(context.Context) (wait func() error)            { return func() error { return errElsewhere } }
func (*Layer) Changes(context.Context, ...string) ([]Change, error) { return nil, errElsewhere }
func (*Layer) Screen(context.Context, Host, ...string) ([]Finding, error) {
	return nil, errElsewhere
}
func (*Layer) WritePatch(context.Context, io.Writer, bool, ...string) error   { return errElsewhere }
func (*Layer) WriteUnreviewed(context.Context, io.Writer, *ReviewError) error { return errElsewhere }
func (*Layer) WriteStat(context.Context, io.Writer, ...string) error          { return errElsewhere }
func (*Layer) WriteStatus(context.Context, io.Writer, ...string) error        { return errElsewhere }
func (*Layer) WriteTar(context.Context, io.Writer, ...string) ([]string, error) {
	return nil, errElsewhere
}
func (*Layer) Commit(context.Context, CommitOptions, Host) (Commit, error) {
	return Commit{}, errElsewhere
}
func (*Layer) Discard(context.Context, ...string) ([]Change, error) { return nil, errElsewhere }
