// Package privilege says who may do what on the host itself: principals, the
// privileges that they were granted, and where grants are kept.
//
// A privilege is one bit of a 64-bit mask. Nobody holds one by default: what
// reaches outside a sandbox is granted, by name, to the principal that needs
// it. [Check] is the question that doors ask; it refuses whenever it cannot
// find out:
//
//	store, err := privilege.OpenFile("/var/lib/paddock/privileges.json")
//	…
//	before, after, err := store.Update(ctx, "user:ann", func(s privilege.Set) privilege.Set {
//		return s | privilege.UnsandboxedExec
//	})
//	…
//	err = privilege.Check(ctx, store, &privilege.Principal{Name: "user:ann"}, privilege.UnsandboxedExec)
//
// A [Store] is a file (here) or a Redis server (privilege/redis);
// privilege/stores opens either by one text. What is written to a store is
// the whole of what a principal holds: there are no groups, no scopes, and no
// times at which grants end.
package privilege

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// Set is a set of privileges: bit n of the mask is privilege n.
type Set uint64

// The privileges that have names.
const (
	// AlterPrivileges lets a principal grant privileges to others and to
	// itself, and take them away.
	AlterPrivileges Set = 1 << 0
	// UnsandboxedExec lets a principal reach the host outside every sandbox:
	// files of control groups, namespaces of other processes, commands
	// without walls. Administrators, too, need it by explicit grant.
	UnsandboxedExec Set = 1 << 2
	// StargazerUse is the use of the bot whose masks Paddock can share.
	// Nothing of Paddock asks for it.
	StargazerUse Set = 1 << 63
)

// Own are the bits that are Paddock's alone, 32 to 47. The others mean what
// they mean to whoever shares the masks; a store that is shared keeps the two
// apart (privilege/redis).
const Own Set = 0xffff << 32

// names are the privileges that have one, by bit.
var names = []struct {
	set     Set
	name    string
	aliases []string
}{
	{AlterPrivileges, "ALTER_PRIVILEGES", []string{"ALTER", "ALTER_PRIVILEGE"}},
	{UnsandboxedExec, "UNSANDBOXED_EXEC", []string{"UNSANDBOXED", "UNSANDBOXED_EXECUTION"}},
	{StargazerUse, "STARGAZER_USE", []string{"STARGAZER"}},
}

// Has says whether every privilege of need is in s.
func (s Set) Has(need Set) bool { return s&need == need }

// String is the mask in hexadecimal, "0x4". [ParseMask] reads it.
func (s Set) String() string { return "0x" + strconv.FormatUint(uint64(s), 16) }

// Names are the names of the privileges in s, from the lowest bit. A bit that
// has no name is "bit_N".
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

// Known are the names of all privileges that have one.
func Known() []string {
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = n.name
	}
	return all
}

// NameError is a word that names no privilege.
type NameError struct {
	Word string
	Hint string // what there is instead
}

// Error names the word, and what there is instead.
func (e *NameError) Error() string {
	return "cannot use the privilege " + quote(e.Word) + ": there is none of this name (" + e.Hint + ")"
}

// Parse is the set of all the privileges that are named. A name is one of
// [Known] or a shorter form of it, in capitals or not, with "-" for "_" if one
// likes; "bit_N" is bit N from 0 to 63, and "0x…" a mask of any bits. A bare
// number is refused, because it could be a bit or a mask. The error is a
// [*NameError].
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

// parseOne reads a word in capitals.
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

// ParseMask reads a whole mask: "0x4", or "4" in decimal, as Redis keeps it.
func ParseMask(text string) (Set, error) {
	digits, base := text, 10
	if rest, ok := strings.CutPrefix(strings.ToLower(text), "0x"); ok {
		digits, base = rest, 16
	}
	mask, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot use the mask %s: it is no number from 0 to 2^64-1", quote(text))
	}
	return Set(mask), nil
}

// MarshalText gives [Set.String].
func (s Set) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what [ParseMask] reads.
func (s *Set) UnmarshalText(text []byte) error {
	mask, err := ParseMask(string(text))
	if err == nil {
		*s = mask
	}
	return err
}

// quote shows a text that somebody else wrote, cut short.
func quote(text string) string {
	const most = 80
	if len(text) > most {
		return strconv.Quote(strings.ToValidUTF8(text[:most], "")) + "…"
	}
	return strconv.Quote(text)
}
