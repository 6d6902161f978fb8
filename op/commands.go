package op

import (
	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/wire"
)

// allowed refuses arguments that the spec's rules, where it has any, do not
// allow.
func allowed(c *policy.Commands, argv []string) error {
	if c == nil {
		return nil
	}
	rules, err := command.New(*c)
	if err != nil {
		return err
	}
	v := rules.Argv(argv)
	if v.Allowed {
		return nil
	}
	return &paddock.Error{Message: "cannot run: " + v.Reason, Hint: v.Hint, Code: wire.CodeNotExecutable}
}
