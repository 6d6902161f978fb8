// Package protect finds the paths of a workspace and of writable mounts that the
// host executes or obeys, so that a backend makes them read-only: those of
// policy.Inventory, and what git's configuration, its hooks and links name.
//
// [Protect] does it for a request. [GitUser] and [LinkedWorktree] answer two
// questions about the repository over a workspace.
package protect
