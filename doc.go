// Package paddock runs commands inside sandboxes: a workspace that they may
// change, behind walls that the kernel keeps.
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
// A [Cmd] has the fields and methods of os/exec, and where it can, their
// meaning. What differs:
//
//   - The command runs in the sandbox. Its name is looked up there, its Dir is
//     relative to the workspace, and it gets nothing of the caller's environment
//     but the directories of Options.Path that are visible inside.
//   - When a command ends, by itself, by its Timeout, or because its context
//     ended, all that it started is killed with it, and that is proved before
//     Wait returns. Detach leaves such processes alone until the sandbox closes.
//   - Output and CombinedOutput are bounded, by Limits.Output of the spec: the
//     command is not trusted with the caller's memory. [Capture] is the writer
//     that they use.
//   - [Cmd.Result] says more than an exit status: times, byte counts, peak
//     memory, survivors, and the isolation that really held.
//   - Wait does not wait for Stdin.
//
// A Sandbox runs any number of commands, also at the same time, each for about
// the price of a fork and exec. Close ends everything inside. So does the end
// of the calling process, also by SIGKILL: a sandbox never outlives its owner.
//
// # What is inside
//
// The workspace is at /workspace and is where commands start. The host's
// system directories are there, read-only; HOME and /tmp are private and
// empty; nothing else of the host's files is visible unless Spec.Mounts names
// it. Commands have an unprivileged user, no capabilities and no way to get
// any, and their own processes, network, IPC and host name. Inside a writable
// workspace the files that programs of the host run by themselves (git hooks,
// editor tasks) are read-only; see policy.Inventory. Of git's configuration
// commands have a copy, with the linux backend; see [AcceptGit].
//
// [Plan] says for a spec what exactly would be done, and [Probe] whether this
// host can do it. What is written in a spec is kept or refused, never quietly
// weakened; [Sandbox.Isolation] is what holds, read back from the kernel.
//
// # Limits
//
// The kernel is shared with the sandbox. Without cgroup limits nothing bounds
// the memory and processor time of a sandbox as a whole. What a command does
// to its workspace and to writable mounts is done.
//
// # Errors
//
// A spec that makes no sense gives one or more *policy.FieldError, joined; a
// wall that cannot be built a *backend.StartError; most of the rest an
// [*Error] with a hint where there is something to do. [ErrNotFound],
// [ErrNotExecutable], [ErrTimeout] and [ErrClosed] work with errors.Is. A
// command that ran and failed is an [*ExitError].
//
// # Needs
//
// The program paddock-agent must be found: see [Options]. It runs inside every
// sandbox, as its first process. The default backend needs Linux with user
// namespaces.
package paddock
