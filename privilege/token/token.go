// Package token keeps bearer tokens: who may come in from elsewhere, as which
// principal, and within which bounds.
//
// A token is "pdk_ID_SECRET". The ID is no secret, and names it in lists; the
// secret has 256 random bits, and nothing but the SHA-256 of the whole is kept.
// Every token belongs to a principal; all tokens of one have the same bounds,
// since they share what the principal has: its sandboxes and sessions. What the
// principal was granted beyond them is the store's of privileges to say.
//
//	store, err := token.Open("/var/lib/paddock/tokens.json")
//	…
//	text, made, err := store.Create(ctx, token.New{Principal: "agent:ann", Bounds: &bounds})
//	…
//	who, err := store.Check(text, time.Now()) // token.ErrUnknown, token.ErrExpired
//
// The file is looked at on each question, so that a token that was revoked, by
// any process, is refused from then on.
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
	"strings"
	"time"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege"
)

const (
	// Prefix begins every token, for people and for programs that look for
	// secrets that were published by mistake.
	Prefix = "pdk_"
	// MaxTokens bounds how many a file holds.
	MaxTokens = 4096

	idBytes     = 5  // 8 characters
	secretBytes = 32 // 52 characters
	idLength    = 8
	length      = len(Prefix) + idLength + 1 + 52
)

// What is wrong with a token. That it was revoked cannot be told from one that
// never was.
var (
	ErrUnknown = errors.New("the token is not known")
	ErrExpired = errors.New("the token has expired")
)

// Token is what is kept of one.
type Token struct {
	// ID names it.
	ID string
	// Principal is whom it lets in.
	Principal string
	// Created and Expires are times; Expires is zero for one that does not.
	Created, Expires time.Time

	hash [sha256.Size]byte
}

// Expired says whether the token is past its time.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Bounds are what a principal may have behind a door.
type Bounds struct {
	// Ceiling is the most that its specs may ask for.
	Ceiling policy.Ceiling `json:"ceiling"`
	// Default is the sandbox that is meant where none is named.
	Default policy.Spec `json:"default"`
}

// Validate refuses bounds that cannot be meant: a ceiling that allows nothing,
// and a default sandbox that it does not allow.
func (b *Bounds) Validate() error {
	if err := b.Ceiling.Validate(); err != nil {
		return err
	}
	_, err := b.Ceiling.Apply(b.Default)
	return err
}

// Equal says whether both allow the same; nil equals nil alone.
func (b *Bounds) Equal(other *Bounds) bool {
	if b == other || b == nil || other == nil {
		return b == other
	}
	one, err := json.Marshal(b)
	two, err2 := json.Marshal(other)
	return err == nil && err2 == nil && bytes.Equal(one, two)
}

// Holder is whom a token lets in.
type Holder struct {
	// Token is the one that was shown.
	Token Token
	// Principal is who it is: no administrator, whatever its name.
	Principal privilege.Principal
	// Bounds are those of the principal. They must not be changed.
	Bounds *Bounds
}

var letters = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newText makes a token and what is kept of it.
func newText() (text, id string, hash [sha256.Size]byte) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // it never fails
	id = letters.EncodeToString(random[:idBytes])
	text = Prefix + id + "_" + letters.EncodeToString(random[idBytes:])
	return text, id, sha256.Sum256([]byte(text))
}

// idOf is the ID in a text that may be a token.
func idOf(text string) (string, bool) {
	rest, ok := strings.CutPrefix(text, Prefix)
	if !ok || len(text) != length || rest[idLength] != '_' {
		return "", false
	}
	return rest[:idLength], true
}

// same compares in a time that does not depend on where the two differ.
func (t Token) same(text string) bool {
	hash := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1
}

func parseHash(text string) (hash [sha256.Size]byte, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(hash) {
		return hash, errors.New("a hash is not 64 hexadecimal digits")
	}
	return [sha256.Size]byte(raw), nil
}
