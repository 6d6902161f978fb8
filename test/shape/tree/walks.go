package tree

// Walks are the ways that ARCHITECTURE.md lists. Where code is renamed or moved,
// the names here go with it; where a walk gets shorter or longer, "make shape
// SHAPEARGS=-write" writes its list anew.
var Walks = []Walk{
	{
		Name:  "memory",
		Title: "`--memory`, from its flag to the kernel's `memory.max`",
		From:  []string{"cmd/internal/cli.value.Set", "cmd/internal/cli.Input.Encode", "cmd/internal/cli.App.call", "op.Op.Call", "op.decode", "op/internal/exec.RunInput.Do"},
		Value: []string{
			"cmd/internal/cli.value.Set#text", "op.Op.Call#input", "op.decode#input", "policy.LimitFields.Memory",
			"policy.Limits", "confine.GroupLimits", "cgroup.Limits", "cgroup.setting",
		},
		Within: []string{"op.SpecInput", "op/internal/exec.RunInput", "policy.Spec", "policy.Ceiling", "backend.Request", "backend/linux.builder"},
		Ends:   []string{"cmd/internal/cli.Input.Words", "policy.FieldError.Value"}, // for errors
		Beside: []string{"backend/docker", "backend/codex", "backend/host", "backend/wrapper", "backend/piped"},
	},
	{
		Name:  "exec",
		Title: "The command of MCP's `exec`, from the client's line to `execve`",
		From:  []string{"server/mcp.lines.Read", "server/mcp.view.call", "op.Op.Call", "op.decode", "op/internal/exec.ExecInput.Do", "agent.Agent.serveConn", "agent.Agent.answerExec", "agent/internal/spawn.Spawner.run"},
		Value: []string{
			"server/mcp.line", "server/mcp.view.do#input", "op.Op.Call#input", "op.decode#input", "op/internal/exec.ExecInput.Command", "op/internal/exec.ExecInput.Argv",
			"paddock.Cmd.Args", "wire.ExecRequest", "internal/clone.Command", "internal/clone.image",
		},
		Within: []string{"op/internal/exec.ExecInput", "paddock.Cmd", "agent.request", "agent/internal/spawn.spawnRequest"},
		Ends:   []string{"paddock.Error.Hint", "op/internal/exec.RunOutput.Command", "op/internal/registry.Exec.Command", "wire.RedactTextsRequest.Texts", "policy/command.checker.text", "policy/command.arg.text"}, // told, or judged
		Beside: []string{"internal/redact", "audit"},
	},
	{
		Name:  "redaction",
		Title: "A rule of `--redact`, from its flag to the bytes that it replaces",
		From:  []string{"cmd/internal/cli.value.Set", "cmd/internal/cli.Input.Encode", "cmd/internal/cli.App.call", "op.Op.Call", "op.decode", "op/internal/exec.RunInput.Do", "agent.Main", "agent/internal/exec.start", "agent/internal/exec.Command.pump"},
		Value: []string{
			"cmd/internal/cli.value.Set#text", "op.Op.Call#input", "op.decode#input", "op.SpecInput.Redact",
			"policy.Redaction", "internal/redact.Rules", "internal/redact.rule",
		},
		Within: []string{
			"op.SpecInput", "op/internal/exec.RunInput", "policy.Spec", "policy.Ceiling", "backend.Request", "backend/linux.builder",
			"confine.Boot", "confine.Plan", "agent/internal/core.Redactor", "internal/redact.Set",
		},
		Ends:   []string{"cmd/internal/cli.Input.Words", "policy.FieldError.Value"},
		Beside: []string{"backend/docker", "backend/codex", "backend/host", "backend/wrapper", "backend/piped"},
	},
}
