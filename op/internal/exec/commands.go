package exec

import (
	"maps"
	"slices"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/policy/command"
	"github.com/paddock-dev/paddock/wire"
)

// allowed refuses arguments that the spec's rules, where it has any, do not
// allow.
func allowed(spec policy.Spec, argv []string) error {
	if spec.Commands == nil {
		return nil
	}
	rules, err := command.New(*spec.Commands)
	if err != nil {
		return err
	}
	v := rules.Given(slices.Collect(maps.Keys(spec.Env))...).Argv(argv)
	if v.Allowed {
		return nil
	}
	return &paddock.Error{Message: "cannot run: " + v.Reason, Hint: v.Hint, Code: wire.CodeNotExecutable}
}
