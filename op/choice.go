package op

import "github.com/paddock-dev/paddock/policy"

// choice says whether a ceiling leaves one in what a field's tag "within" names:
// a part of the ceiling, or "files", the host's that Paddock itself reads. Who is
// offered a field for nothing but a refusal chooses worse among the others.
func choice(c *policy.Ceiling, part string) bool {
	if c == nil {
		return true
	}
	switch part {
	case "files":
		return false
	case "mounts":
		return len(c.Mounts) > 0
	case "env":
		return len(c.Env) > 0
	case "unprotected":
		return len(c.Unprotected) > 0
	case "degraded":
		return len(c.AllowDegraded) > 0
	case "levels":
		return len(c.Levels) > 1
	case "rootfs":
		return len(c.RootFS) > 1
	case "network":
		return len(c.Network) > 1
	case "backends":
		return len(c.Backends) > 1
	case "docker":
		return c.Docker != nil
	case "codex":
		return c.Codex != nil
	case "wrapper":
		return c.Wrapper != nil
	}
	return true
}
