// Package hostpath looks at the host's paths that a spec names, before a
// backend shows them to a sandbox: what they lead to, over which links, who owns
// them, and whether commands of a sandbox could have written there.
//
// It only looks. Between its look and a backend's use others may change a
// path: a backend opens what [Mounts] found without following links, or leaves
// that to an engine and reads back what it did.
//
// Below it, protect finds what commands must not change, snapshot compares what
// the host executes or obeys before and after, and gitconfig reads git's
// configuration.
package hostpath
