// Package systemd asks the service manager for a scope: a control group that
// is delegated to the caller, with processes that run already.
//
// An ordinary user may not move a process across the hierarchy; the manager
// may. So an agent is started and held, [Start] moves it into a scope of its own,
// and it goes on. The scope ends with its last process.
//
// Root asks the system's manager, others their own. Every step is bounded by
// the context. What was asked for is then looked up in the kernel: the answer
// is a group in which the processes are.
package systemd
