// Package hostpath looks at the host's paths that a spec names, before a
// backend shows them to a sandbox: what they lead to, who owns them, and which
// paths of a workspace the host executes or obeys, so that commands must not
// change them.
//
// It only looks. Between its look and a backend's use others may change a
// path: a backend opens what [Mounts] found without following links, or leaves
// that to an engine and reads back what it did.
package hostpath
