//go:build !linux

package cli

import "github.com/paddock-dev/paddock/policy"

// asUser refuses: there are no sandboxes of other users here.
func (a *App) asUser(name string, _ []string, _ bool) error {
	return &policy.FieldError{Field: "--of", Value: name, Reason: "only on Linux can this program become another user"}
}
