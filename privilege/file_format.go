package privilege

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

const (
	// maxFile bounds the file, in bytes: room for [MaxPrincipals] of the
	// longest names.
	maxFile = 16 << 20
	// fileVersion is of the format.
	fileVersion = 1
)

// parse reads the file's text. Whatever is not as [File] says is an error, a
// name that is there twice included: the two could say different things.
func parse(data []byte) (map[string]Set, error) {
	var doc struct {
		Version    int        `json:"version"`
		Principals grantTable `json:"principals"`
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("it is not what Paddock writes: %v", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is not what Paddock writes: something follows the object")
	}
	if doc.Version != fileVersion {
		return nil, fmt.Errorf("its version is %d, and this Paddock knows %d", doc.Version, fileVersion)
	}
	if doc.Principals == nil {
		return nil, errors.New("it is not what Paddock writes: principals are missing")
	}
	return doc.Principals, nil
}

// grantTable is the list of principals, read strictly.
type grantTable map[string]Set

// UnmarshalJSON reads it name by name.
func (g *grantTable) UnmarshalJSON(data []byte) error {
	if *g != nil {
		return errors.New("principals are there twice")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.New("principals must be an object")
	}
	*g = grantTable{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		value, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string) // of an object it is nothing else
		mask, ok := value.(string)
		if !ok {
			return errors.New("a mask must be a text")
		}
		if err := g.add(name, mask); err != nil {
			return err
		}
	}
	return nil
}

func (g grantTable) add(name, mask string) error {
	set, err := ParseMask(mask)
	if err := errors.Join(CheckName(name), err); err != nil {
		return err
	}
	if _, again := g[name]; again {
		return errors.New(quote(name) + " is there twice")
	}
	if len(g) == MaxPrincipals {
		return fmt.Errorf("there are more than %d principals", MaxPrincipals)
	}
	g[name] = set
	return nil
}

func encode(grants map[string]Set) ([]byte, error) {
	if len(grants) > MaxPrincipals {
		return nil, fmt.Errorf("there are more than %d principals", MaxPrincipals)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	err := enc.Encode(map[string]any{"version": fileVersion, "principals": grants})
	return b.Bytes(), err
}
