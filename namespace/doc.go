// Package namespace runs a command in new namespaces ([Unshare]), or in those
// of another process ([Enter]), as unshare(1) and nsenter(1) do, by system
// calls alone. It builds no walls: what it starts has all that its caller has.
//
//	setup, err := namespace.ParseUnshare([]string{"--user", "r", "pid", "fork"})
//	result, err := namespace.Run(ctx, setup, &namespace.Command{Argv: []string{"id"}, Stdout: os.Stdout})
//
// The work is done by a helper, which is this program once more: main (and
// TestMain) must call [Helper] before anything else. The helper is the
// subreaper of the command, keeps a control group for it where one can be made,
// and ends it when its caller is gone, however that came about.
//
// The end of a command is the end of every process that it has started, and a
// [Result] says whether that is proved. It is not proved against a process
// with the privilege to leave both its control group and its ancestors.
package namespace
