// Package codex builds sandboxes with the sandbox of the codex command line
// (npm package @openai/codex): "codex sandbox … -- COMMAND" runs the agent
// behind it, and the agent's standard input and output are its only way out.
//
// # Shape
//
// [Backend.Start] finds the CLI, asks it once how this version takes its
// arguments (cli.go), and writes the settings that make its sandbox as the spec
// asks for (settings.go). It does not trust the result: before each start the
// same command line runs the agent's program once, which tries to write outside
// of the workspace, inside of it, and to connect to a port of the host
// (attempt.go). If something succeeds that should have failed, the start fails.
// verify.go reads what /proc says about the running agent.
//
// # What the wall is
//
// The CLI's own mode "workspace-write": commands can read the same files as the
// caller, write the workspace and a private directory for temporary files, and
// have no network. New versions build that with bubblewrap, old ones with
// Landlock. Both add a system call filter that allows only Unix sockets, and no
// calls on those either. Paddock adds its own filter, limits of processes and the
// tracking of process trees inside.
//
// The CLI gets a separate directory of settings, so that neither the
// caller's settings nor those in the workspace change the wall, and nothing is
// written to ~/.codex. config_overrides do change it; the attempts then show how.
//
// # Limits
//
// Nothing limits memory or processors of all commands together. Commands can
// read all files that the caller can read: keys, tokens, other projects. Whether
// directories like .git in the workspace are read-only depends on the CLI's
// version.
package codex
