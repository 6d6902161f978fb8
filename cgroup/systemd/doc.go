// Package systemd asks the service manager for a scope: a control group that is
// delegated to the caller, for processes that run already.
//
// An ordinary user may not move a process across the hierarchy, but the manager
// may. So an agent is started and stopped at once, [Start] moves it into its own
// scope, and it continues. The scope ends with its last process.
//
// Root asks the system's manager, other users their own. The context bounds every
// step. Start does not rely on the manager's answer: it checks in the kernel that
// the processes are in the group that it returns.
package systemd
