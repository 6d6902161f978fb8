package paddock

import (
	"maps"
	"strings"

	"github.com/paddock-dev/paddock/wire"
)

// request is what the agent is asked.
func (c *Cmd) request() (wire.ExecRequest, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return wire.ExecRequest{}, &Error{Message: "cannot start the command: no command was given", Code: wire.CodeBadRequest}
	}
	for _, arg := range append([]string{c.Dir}, c.Args...) {
		if strings.IndexByte(arg, 0) >= 0 {
			return wire.ExecRequest{}, &Error{
				Message: "cannot start the command: an argument or the directory contains a NUL byte",
				Code:    wire.CodeBadRequest,
			}
		}
	}
	env, err := environment(c.Env)
	if err != nil {
		return wire.ExecRequest{}, err
	}
	added, err := environment(c.AddEnv)
	if err != nil {
		return wire.ExecRequest{}, err
	}
	if env == nil {
		env = added
	} else {
		maps.Copy(env, added)
	}
	if c.Timeout < 0 {
		return wire.ExecRequest{}, &Error{Message: "cannot start the command: its timeout is negative", Code: wire.CodeBadRequest}
	}
	req := wire.ExecRequest{
		Argv: c.Args, Cwd: c.Dir, Env: env, ClearEnv: c.Env != nil,
		TTY: c.TTY, Stream: true, Detach: c.Detach,
		Redaction: c.sandbox.redaction(),
	}
	if c.Timeout > 0 {
		seconds := c.Timeout.Seconds()
		req.TimeoutSeconds = &seconds
	}
	return req, nil
}

// redaction are the rules of the sandbox's spec for what is printed in it.
func (s *Sandbox) redaction() (rules wire.RedactRules) {
	for _, rule := range s.spec.Redaction {
		rules = append(rules, wire.RedactRule(rule))
	}
	return rules
}

// environment reads "K=V" entries.
func environment(list []string) (map[string]string, error) {
	if list == nil {
		return nil, nil
	}
	env := make(map[string]string, len(list))
	for _, entry := range list {
		key, value, ok := strings.Cut(entry, "=")
		if !ok || key == "" || strings.IndexByte(entry, 0) >= 0 {
			// The entry itself may be a secret.
			return nil, &Error{
				Message: "cannot start the command: an entry of its environment is not K=V without NUL bytes",
				Code:    wire.CodeBadRequest,
			}
		}
		env[key] = value
	}
	return env, nil
}
