// Package token stores bearer tokens: each one authenticates a principal, with bounds on its
// sandboxes.
//
// A token is "pdk_ID_SECRET". The ID is not secret, and names the token in lists; the secret
// has 256 random bits, and only the SHA-256 of the whole token is stored. All tokens of a
// principal have the same bounds, since they share its sandboxes and sessions. Privileges on
// the host are granted separately (package privilege).
//
//	store, err := token.Open("/var/lib/paddock/tokens.json")
//	…
//	text, made, err := store.Create(ctx, token.New{Principal: "agent:ann", Bounds: &bounds})
//	…
//	who, err := store.Check(text, time.Now()) // token.ErrUnknown, token.ErrExpired
//
// Each call checks the file, so that a token that any process has revoked is refused from
// then on.
package token

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/paddock-dev/paddock/internal/ownfile"
	"github.com/paddock-dev/paddock/internal/strictjson"
	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

const (
	// Prefix begins every token, so that people and secret scanners recognise one.
	Prefix = "pdk_"
	// MaxTokens bounds the tokens in a file.
	MaxTokens = 4096

	idBytes     = 5  // 8 characters
	secretBytes = 32 // 52 characters
	idLength    = 8
	length      = len(Prefix) + idLength + 1 + 52
)

// The reasons to refuse a token. A revoked token is also unknown.
var (
	ErrUnknown = errors.New("the token is not known")
	ErrExpired = errors.New("the token has expired")
)

// Token describes a token, without its secret.
type Token struct {
	// ID names the token in lists.
	ID string
	// Principal is the name of the principal that it authenticates.
	Principal string
	// Expires is zero for a token that does not expire.
	Created, Expires time.Time

	hash [sha256.Size]byte
}

// Expired reports whether the token has expired.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Bounds bound the sandboxes of a principal.
type Bounds struct {
	// Ceiling bounds its specs.
	Ceiling policy.Ceiling `json:"ceiling"`
	// Default is the spec of its default sandbox.
	Default policy.Spec `json:"default"`
}

// Validate returns an error for a ceiling that allows nothing, or not the default sandbox.
func (b *Bounds) Validate() error {
	if err := b.Ceiling.Validate(); err != nil {
		return err
	}
	if _, err := b.Ceiling.Apply(b.Default); err != nil {
		return err
	}
	paths := slices.Concat([]string{b.Default.Workspace.Source, b.Default.Workspace.Layers, b.Default.RootFS, b.Default.Home}, b.Ceiling.RootFS, b.Ceiling.HostSockets, b.Ceiling.Unprotected, b.Default.Workspace.Unprotected)
	for _, p := range slices.Concat(b.Ceiling.Workspace, b.Ceiling.Mounts) {
		paths = append(paths, p.Source)
	}
	for _, m := range b.Default.Mounts {
		paths = append(paths, m.Source, m.Target)
	}
	if i := slices.IndexFunc(paths, func(p string) bool { return !utf8.ValidString(p) }); i >= 0 {
		return fmt.Errorf("the path %q is not valid UTF-8, and the file of tokens is text", paths[i])
	}
	return nil
}

// Equal reports whether both allow the same. nil equals only nil.
func (b *Bounds) Equal(other *Bounds) bool {
	if b == other || b == nil || other == nil {
		return b == other
	}
	one, err := json.Marshal(Bounds{*b.Ceiling.Explicit(), b.Default})
	two, err2 := json.Marshal(Bounds{*other.Ceiling.Explicit(), other.Default})
	return err == nil && err2 == nil && bytes.Equal(one, two)
}

// Holder is the principal of a valid token.
type Holder struct {
	// Token is the token that was checked.
	Token Token
	// Principal is never an administrator, whatever its name.
	Principal privilege.Principal
	// Bounds are the bounds of the principal, which must not be changed.
	Bounds *Bounds
}

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newText returns a new token, and its ID and hash.
func newText() (text, id string, hash [sha256.Size]byte) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	id = letters.EncodeToString(random[:idBytes])
	text = Prefix + id + "_" + letters.EncodeToString(random[idBytes:])
	return text, id, sha256.Sum256([]byte(text))
}

// idOf returns the ID in a text that has the form of a token.
func idOf(text string) (string, bool) {
	rest, ok := strings.CutPrefix(text, Prefix)
	if !ok || len(text) != length || rest[idLength] != '_' {
		return "", false
	}
	return rest[:idLength], true
}

// same reports whether text is the token, in constant time.
func (t Token) same(text string) bool {
	hash := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1
}

const (
	// maxFile bounds the file, in bytes.
	maxFile = 64 << 20
	// fileVersion is the version of the format.
	fileVersion = 1
)

// document is the content of the file.
type document struct {
	Version    int                `json:"version"`
	Principals map[string]*Bounds `json:"principals"`
	Tokens     map[string]record  `json:"tokens"`
}

// record is a token in the file.
type record struct {
	Principal string    `json:"principal"`
	SHA256    string    `json:"sha256"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"`
}

// parse parses the file. Any content that Paddock would not have written is an error, since the
// file decides who is authenticated.
func parse(data []byte) (*tables, error) {
	t, err := parseStrictly(data)
	if err != nil {
		return nil, &ownfile.BrokenError{Reason: err.Error(), Hint: "replace it by a good copy, or remove it: then no token is valid"}
	}
	return t, nil
}

func parseStrictly(data []byte) (*tables, error) {
	var doc document
	if err := strictjson.Unmarshal(data, &doc, strictjson.Options{}); err != nil {
		return nil, fmt.Errorf("it is not what Paddock writes: %v", err)
	}
	if doc.Version != fileVersion {
		return nil, fmt.Errorf("unknown version %d of the file, this Paddock reads version %d", doc.Version, fileVersion)
	}
	if len(doc.Tokens) > MaxTokens {
		return nil, fmt.Errorf("there are more than %d tokens", MaxTokens)
	}
	for name, bounds := range doc.Principals {
		if err := privilege.CheckName(name); err != nil {
			return nil, err
		}
		if bounds == nil {
			return nil, fmt.Errorf("principal %q has no bounds", name)
		}
		// Whether it allows the default sandbox is asked at each use: what ceilings leave out may
		// have been more when it was written, which must not end the other principals' tokens.
		if err := bounds.Ceiling.Validate(); err != nil {
			return nil, fmt.Errorf("principal %q: %v", name, err)
		}
	}
	t := &tables{principals: doc.Principals, tokens: make(map[string]Token, len(doc.Tokens))}
	for id, r := range doc.Tokens {
		one, err := r.token(id)
		if err == nil && doc.Principals[r.Principal] == nil {
			err = fmt.Errorf("principal %q has no bounds", r.Principal)
		}
		if err != nil {
			return nil, fmt.Errorf("token %q: %v", id, err)
		}
		t.tokens[id] = one
	}
	return t, nil
}

func (r record) token(id string) (Token, error) {
	hash, err := hex.DecodeString(r.SHA256)
	switch {
	case err != nil || len(hash) != sha256.Size:
		return Token{}, errors.New("a hash must be 64 hexadecimal digits")
	case len(id) != idLength:
		return Token{}, errors.New("its ID must have 8 characters")
	}
	return Token{ID: id, Principal: r.Principal, Created: r.Created, Expires: r.Expires, hash: [sha256.Size]byte(hash)}, nil
}

func encode(t *tables) ([]byte, error) {
	doc := document{Version: fileVersion, Principals: t.principals, Tokens: make(map[string]record, len(t.tokens))}
	for id, one := range t.tokens {
		doc.Tokens[id] = record{one.Principal, hex.EncodeToString(one.hash[:]), one.Created, one.Expires}
	}
	data, err := json.MarshalIndent(doc, "", "  ")
	if err == nil && len(data) >= maxFile {
		err = fmt.Errorf("the tokens would take more than %d MiB", maxFile>>20)
	}
	return append(data, '\n'), err
}
