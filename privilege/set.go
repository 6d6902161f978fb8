// Package privilege decides who may act on the host itself: principals, the privileges that
// were granted to them, and the store of these grants.
//
// A privilege is one bit of a 64-bit mask. No principal holds one by default: every right to
// reach outside a sandbox must be granted, by name, to the principal that needs it. Doors call
// [Check], which refuses if the store cannot be read:
//
//	store, err := privilege.OpenFile("/var/lib/paddock/privileges.json")
//	…
//	before, after, err := store.Update(ctx, "user:ann", func(s privilege.Set) privilege.Set {
//		return s | privilege.UnsandboxedExec
//	})
//	…
//	err = privilege.Check(ctx, store, &privilege.Principal{Name: "user:ann"}, privilege.UnsandboxedExec)
//
// A [Store] is a file ([OpenFile]) or a Redis server (privilege/redis); privilege/stores
// opens either by its address. A principal holds exactly what the store says: there are no
// groups, no scopes, and no grants that expire.
package privilege

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/paddock-dev/paddock/internal/text"
)

// Set is a set of privileges: bit n of the mask is privilege n.
type Set uint64

// The privileges with names.
const (
	// AlterPrivileges allows a principal to grant privileges to others and to
	// itself, and to revoke them.
	AlterPrivileges Set = 1 << 0
	// UnsandboxedExec allows a principal to reach the host outside every sandbox:
	// files of control groups, namespaces of other processes, commands
	// without walls. Administrators also need an explicit grant of it.
	UnsandboxedExec Set = 1 << 2
	// StargazerUse allows a principal to use the bot whose masks Paddock can share. Paddock
	// never checks it.
	StargazerUse Set = 1 << 63
)

// Own is the set of bits that are Paddock's alone, 32 to 47. The programs that share a store
// define the others; such a store keeps the two apart (privilege/redis).
const Own Set = 0xffff << 32

// names are the names of privileges, by bit.
var names = []struct {
	set     Set
	name    string
	aliases []string
}{
	{AlterPrivileges, "ALTER_PRIVILEGES", []string{"ALTER", "ALTER_PRIVILEGE"}},
	{UnsandboxedExec, "UNSANDBOXED_EXEC", []string{"UNSANDBOXED", "UNSANDBOXED_EXECUTION"}},
	{StargazerUse, "STARGAZER_USE", []string{"STARGAZER"}},
}

// Has reports whether s contains every privilege of need.
func (s Set) Has(need Set) bool { return s&need == need }

// String returns the mask in hexadecimal, such as "0x4". [ParseMask] parses it.
func (s Set) String() string { return "0x" + strconv.FormatUint(uint64(s), 16) }

// Names returns the names of the privileges in s, from the lowest bit. A bit without a name
// is "bit_N".
func (s Set) Names() []string {
	all := make([]string, 0, bits.OnesCount64(uint64(s)))
	for left := uint64(s); left != 0; left &= left - 1 {
		all = append(all, nameOf(bits.TrailingZeros64(left)))
	}
	return all
}

func nameOf(bit int) string {
	for _, n := range names {
		if n.set == 1<<bit {
			return n.name
		}
	}
	return "bit_" + strconv.Itoa(bit)
}

// Known returns the names of all privileges that have one.
func Known() []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = n.name
	}
	return all
}

// NameError is an unknown name of a privilege.
type NameError struct {
	Word string
	Hint string // the known names
}

// Error returns the unknown name and the known ones.
func (e *NameError) Error() string {
	return "unknown privilege " + quote(e.Word) + " (" + e.Hint + ")"
}

// Parse returns the set of the named privileges. A name is one of [Known] or a shorter form
// of it, in any case, with "-" or "_"; "bit_N" is bit N from 0 to 63, and "0x…" a mask. A
// bare number is refused, because it could be a bit or a mask. The error is a [*NameError].
func Parse(words ...string) (Set, error) {
	var all Set
	for _, word := range words {
		set, ok := parseOne(strings.ReplaceAll(strings.ToUpper(strings.TrimSpace(word)), "-", "_"))
		if !ok {
			return 0, &NameError{word, "the names are " + strings.Join(Known(), ", ") + ", bit_0 to bit_63, or a mask as 0x…"}
		}
		all |= set
	}
	return all, nil
}

// parseOne parses a name in upper case.
func parseOne(word string) (Set, bool) {
	for _, n := range names {
		if word == n.name {
			return n.set, true
		}
		for _, alias := range n.aliases {
			if word == alias {
				return n.set, true
			}
		}
	}
	if number, ok := strings.CutPrefix(word, "BIT_"); ok {
		bit, err := strconv.ParseUint(number, 10, 7)
		return 1 << bit, err == nil && bit < 64
	}
	if digits, ok := strings.CutPrefix(word, "0X"); ok {
		mask, err := strconv.ParseUint(digits, 16, 64)
		return Set(mask), err == nil
	}
	return 0, false
}

// ParseMask parses a mask: "0x4", or "4" in decimal, as in Redis.
func ParseMask(text string) (Set, error) {
	digits, base := text, 10
	if rest, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		digits, base = rest, 16
	}
	mask, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot use the mask %s: it must be a number from 0 to 2^64-1", quote(text))
	}
	return Set(mask), nil
}

// MarshalText returns [Set.String].
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a mask as [ParseMask] does.
func (s *Set) UnmarshalText(text []byte) error {
	mask, err := ParseMask(string(text))
	if err == nil {
		*s = mask
	}
	return err
}

// quote quotes an untrusted text, cut to 80 bytes.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(text.Prefix(s, most)) + "…"
	}
	return strconv.Quote(s)
}
