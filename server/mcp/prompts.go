package mcp

import (
	"context"
	"strings"

	"github.com/paddock-dev/paddock/op"
	"github.com/paddock-dev/paddock/policy"
)

// instructions returns the description of the server for models.
func instructions(profile op.Profile) string {
	const walls = "The system is read-only, HOME and /tmp are private, and there is no network but what the operator gave. "
	const longOutput = "Long output is kept: an answer has its head and tail and says how output_read gets the rest. "
	const errors = "Errors read “cannot …: …”, with a hint if something can be done about it."
	if profile == op.ProfileRun {
		return "Paddock runs commands in a sandbox: each call has one of its own, which ends with it. " +
			"Commands find the workspace at /workspace and may change it. " + walls + longOutput + errors
	}
	return "Paddock is a safe computer. Its tools work in a sandbox over the workspace that the operator chose, at /workspace; " +
		"it starts with the first call and stays until the server ends. Begin with exec. " + walls +
		longOutput + errors
}

// explain describes the sandbox to a model, with the isolation that was really applied. It
// opens the default sandbox for that.
func (v *view) explain(ctx context.Context) string {
	var b strings.Builder
	b.WriteString("You work in a Paddock sandbox.\n\n" + instructions(v.server.opts.Profile) + "\n")
	line := func(words ...string) { b.WriteString("- " + strings.Join(words, "") + "\n") }
	if v.server.opts.Profile == op.ProfileRun {
		return b.String()
	}
	var is struct {
		Workspace string           `json:"workspace"`
		Isolation policy.Isolation `json:"isolation"`
	}
	if err := v.ask(ctx, v.env, "sandbox_status", nil, &is); err != nil {
		b.WriteString("\nThe default sandbox cannot be used now:\n" + errorText(err, v.say(v.server.tools.known["sandbox_status"])) + "\n")
		return b.String()
	}
	iso := is.Isolation
	b.WriteString("\nWhat holds in the default sandbox:\n")
	line("commands begin in ", is.Workspace, ", and what they change there reaches the operator's directory, unless it is a copy (workspace: ", iso.Workspace, ")")
	line("walls: ", iso.Backend, " ", iso.Level, "; network: ", op.NetworkNote(iso))
	if iso.Egress != nil {
		line(v.words().network)
	}
	for _, loss := range iso.Lost {
		line("not kept: ", loss)
	}
	b.WriteString("\nWhat is not there: the host's other files, its processes, its network, its variables and secrets. " +
		"A command that needs them fails; the answer then says what was denied. Do not try to get around that: say what is missing.\n\n" +
		"What lasts: files in the workspace. Processes, /tmp and HOME end with the sandbox. For a command that runs on, use exec with background, or a service. " +
		"Read long output with output_read, from the cursor that the answer names.\n")
	return b.String()
}
