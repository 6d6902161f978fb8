// Package codex builds sandboxes with the sandbox of the codex command line
// (npm package @openai/codex): "codex sandbox … -- COMMAND" runs the agent
// behind it, and the agent's standard input and output are its only way out.
//
// # Shape
//
// [Backend.Start] finds the CLI, asks it once how this version takes its
// arguments (dialect.go), writes the settings that make its sandbox what the
// spec asks for (settings.go, values.go) and then does not take its word for it:
// before each start the same command line runs the agent's program once with
// the order to write outside of the workspace, inside of it, and to call a
// port of the host (attempt.go). What should have failed and did not is an
// error. What can be read of the running agent in /proc is read (verify.go).
//
// # What the wall is
//
// The CLI's own mode "workspace-write": commands read what the caller can
// read, write the workspace and a private directory for temporary files, and
// have no network. New versions build that with bubblewrap, old ones with
// Landlock; both add a filter of system calls that refuses sockets but Unix
// ones, and calls on those too. Paddock's own filter, limits of processes and
// the keeping of process trees come on top, inside.
//
// The CLI gets a directory of settings of its own, so that neither the
// caller's settings nor those in the workspace change the wall, and nothing is
// written to ~/.codex. What config_overrides say does change it; the attempts
// then say in what.
//
// # Limits
//
// Nothing bounds memory or processors. Files that the caller can read are
// readable: keys, tokens, other projects. Directories like .git in the
// workspace are read-only or not, as the version has it.
package codex
