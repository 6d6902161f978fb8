package mcp

import "github.com/paddock-dev/paddock/op"

// instructions are what a client tells its model of the server as a whole.
func instructions(profile op.Profile) string {
	if profile == op.ProfileRun {
		return "Paddock runs commands in a sandbox: each call has one of its own, which ends with it. " +
			"Commands find the workspace at /workspace and may change it; the system is read-only, and there is no network unless the operator gave one. " +
			"Errors read “cannot …: …” and have a hint where something can be done."
	}
	return "Paddock is a safe computer. Tools work in a sandbox over the workspace that the operator chose, at /workspace; it starts with the first call and stays until the server ends. " +
		"Begin with exec. HOME and /tmp are private, the system is read-only, and there is no network unless the operator gave one. " +
		"Long output is kept: answers show its head and tail and say how output_read gets the rest. " +
		"Errors read “cannot …: …” and have a hint where something can be done."
}
