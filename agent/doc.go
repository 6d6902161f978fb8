// Package agent is the half of Paddock that runs inside a sandbox: the one
// program that runs commands there and serves requests over package wire.
//
// # Shape
//
// [Main] boots the sandbox from the plan that a backend hands over, then serves
// connections. This package has the three ways in which an agent runs (boot, guest,
// standalone), the connections and the table of actions; each action is a method
// of one of the inner packages: exec, shell, session, service, files, search.
// They share core (the sandbox that commands run in), which uses spawn (how
// processes are started, found and ended). Imports run in this one direction.
//
// # Two pid namespaces
//
// The agent is PID 1 of an outer pid namespace. Its spawner thread makes an
// inner one, whose init is a process that does nothing at all. Commands live
// in the inner one: they cannot name the agent, so they can neither signal,
// trace nor starve it, and orphans never become the agent's children.
//
// # Marks
//
// Every command starts in a new UTS namespace. Its descendants inherit this namespace and
// cannot leave it, since they lack the capability. It marks the tree: whatever a process
// does with its session, group or parent, the mark stays.
// The agent keeps two capabilities in the sandbox's own user namespace for
// this, CAP_SYS_ADMIN to make marks and CAP_SYS_PTRACE to read them from
// processes that hide; commands have none.
//
// # Without walls
//
// [Standalone] runs an agent without walls around it: in a
// virtual machine, in a container, or as an ordinary process. It opens its own
// listeners, has private directories, and finds and ends whole trees by being the
// subreaper of its commands (treeIndex in package spawn). The rest is the same code.
//
// # Limits
//
// Commands may take over the agent. The host side must treat every byte that the agent
// sends as if a command had sent it (see SECURITY.md).
package agent
