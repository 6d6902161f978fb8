// Package obeyed knows which files the host executes or obeys (policy.Inventory, and what git's
// configuration, its hooks and links name), and keeps commands from deciding over them. It is asked at
// three times.
//
// Before commands can write to directories of the host, [Protect] finds what exists of these files, so
// that a backend makes it read-only. After them, a [Snapshot] of before is compared with what is there
// then; [Snapshot.Encode] stores it for a later process in case the owner is killed. Both read the
// names in the directories once ([Names]).
//
// When changes of commands are to land in a directory, a [Judge] applies exactly these to it, as a
// state that exists only in memory, follows every name as the host would, and compares what the host
// would obey with what it obeys. The caller leaves out what is held back, and asks again about the rest
// until nothing more is.
//
// No link that commands could have made is followed by the kernel. Each look is bounded in time, names
// and bytes. What a bound cuts off is reported; what the judge cannot tell is held back.
package obeyed
