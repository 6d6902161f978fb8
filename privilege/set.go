// Package privilege says who may do what on the host itself: principals, the
// privileges that they were granted, and where grants are kept.
//
// A privilege is one bit of a 64-bit mask. Nobody holds one by default: what
// reaches outside a sandbox is granted, by name, to the principal that needs
// it.
package privilege

// Set is a set of privileges: bit n of the mask is privilege n.
type Set uint64

// The privileges that operations ask for.
const (
	// AlterPrivileges lets a principal grant privileges to others, and take
	// them away.
	AlterPrivileges Set = 1 << 0
	// UnsandboxedExec lets a principal reach the host outside every sandbox:
	// files of control groups, namespaces of other processes, commands
	// without walls.
	UnsandboxedExec Set = 1 << 2
)

// Has says whether every privilege of need is in s.
func (s Set) Has(need Set) bool { return s&need == need }
