// Package paddock runs commands inside sandboxes: a workspace that they may
// change, behind walls that the kernel enforces.
//
// # Use
//
// [Open] builds a sandbox from a [Spec]. The zero value of Spec is safe: the
// current directory as workspace, every default wall, no network.
//
//	sandbox, err := paddock.Open(ctx, paddock.Spec{}, paddock.Options{Path: os.Getenv("PATH")})
//	if err != nil {
//		return err
//	}
//	defer sandbox.Close()
//	out, err := sandbox.Command(ctx, "go", "test", "./...").CombinedOutput()
//
// A [Cmd] has the fields and methods of os/exec, with the same meaning where that is
// possible. These are the differences:
//
//   - The command runs in the sandbox. Its name is looked up there, and its Dir is
//     relative to the workspace. Of the caller's environment it gets only the
//     directories of Options.Path that are visible inside.
//   - When a command ends, by itself, by its Timeout, or because its context
//     ended, everything that it started is killed, and that is proved before
//     Wait returns. Detach leaves such processes alone until the sandbox closes.
//   - Output and CombinedOutput are bounded, by Limits.Output of the spec: the
//     command is not trusted with the caller's memory. [Capture] is the writer
//     that they use.
//   - [Cmd.Result] has more than an exit status: times, byte counts, peak
//     memory, survivors, and the isolation that really held.
//   - Wait does not wait for Stdin.
//
// A Sandbox runs any number of commands, also at the same time, each for about
// the price of a fork and exec. Close ends everything inside. So does the end
// of the calling process, also by SIGKILL: a sandbox never outlives its owner.
//
// # What is inside
//
// The workspace is at /workspace, and commands start there. The host's
// system directories are visible, read-only; HOME and /tmp are private and
// empty. No other file of the host is visible unless Spec.Mounts names it.
// Commands run as an unprivileged user, without capabilities or a way to get
// any, and have their own processes, network, IPC and host name. In a writable
// workspace the files that programs of the host run by themselves (git hooks,
// editor tasks) are read-only; see policy.Inventory. With the linux backend
// commands have a copy of git's configuration; see [AcceptGit].
//
// [Plan] returns exactly what would be done for a spec, and [Probe] reports whether
// this host can do it. A spec is enforced or refused, never quietly weakened;
// [Sandbox.Isolation] is what really holds, read back from the kernel.
//
// # Limits
//
// The sandbox shares the host's kernel. Without control groups nothing limits
// the memory and processor time of a sandbox as a whole. Changes of the workspace
// and of writable mounts cannot be undone.
//
// # Errors
//
// The error of an invalid spec is one or more *policy.FieldError, joined, and that of
// a wall that cannot be built a *backend.StartError. Most other errors are an [*Error],
// with a hint if there is something to do. [ErrNotFound], [ErrNotExecutable],
// [ErrTimeout] and [ErrClosed] work with errors.Is. A command that ran and failed
// gives an [*ExitError].
//
// # Needs
//
// The program paddock-agent must be found: see [Options]. It runs inside every
// sandbox, as its first process. The default backend needs Linux with user
// namespaces.
package paddock
