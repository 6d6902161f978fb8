package token

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/paddock-dev/paddock/internal/ownfile"
	"github.com/paddock-dev/paddock/internal/strictjson"
	"github.com/paddock-dev/paddock/privilege"
)

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

// parse parses the file. Anything that Paddock would not have written is an error, since the
// file decides whom to authenticate.
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
		if err := errors.Join(privilege.CheckName(name), checkBounds(name, bounds)); err != nil {
			return nil, err
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

func checkBounds(name string, b *Bounds) error {
	if b == nil {
		return fmt.Errorf("principal %q has no bounds", name)
	}
	if err := b.Validate(); err != nil {
		return fmt.Errorf("principal %q: %v", name, err)
	}
	return nil
}

func (r record) token(id string) (Token, error) {
	hash, err := parseHash(r.SHA256)
	switch {
	case err != nil:
		return Token{}, err
	case len(id) != idLength:
		return Token{}, errors.New("its ID must have 8 characters")
	}
	return Token{ID: id, Principal: r.Principal, Created: r.Created, Expires: r.Expires, hash: hash}, nil
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
