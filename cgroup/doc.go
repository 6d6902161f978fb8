// Package cgroup works with control groups, version 2 alone: it finds the
// hierarchy wherever it is mounted, and a place in it where groups may be made;
// it makes groups, sets limits, reads statistics, freezes and kills.
//
// A [Group] is a directory handle, never a path, so that it can be used
// through a mount that is attached nowhere, by a process that sees nothing of
// the hierarchy else. Everything is relative to the handle.
//
// What a file or a controller means is in the kernel's
// Documentation/admin-guide/cgroup-v2.rst. Limits that the hierarchy cannot
// keep are errors that say which controller is missing ([ErrNoController]);
// statistics that it does not count are absent, never 0.
//
// The package imports the standard library and x/sys alone: the agent links it.
package cgroup
