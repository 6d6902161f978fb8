// Package note reads notes: texts with a head of metadata in YAML or TOML.
package note

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/semver/v3"
	"github.com/mr-tron/base58"
	"github.com/tidwall/gjson"
	"go.uber.org/multierr"
	"go.yaml.in/yaml/v3"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Note is one note.
type Note struct {
	ID    string
	Title string
	Tags  []string
	Needs string // a range of versions of the reader
	Body  string
}

// Parse reads a note: a head between lines of --- is YAML, between lines of +++ TOML, and a head
// in braces JSON.
func Parse(text string) (Note, error) {
	head := map[string]any{}
	body := text
	var err error
	switch {
	case strings.HasPrefix(text, "---\n"):
		var inner string
		if inner, body, err = split(text, "---"); err == nil {
			err = yaml.Unmarshal([]byte(inner), &head)
		}
	case strings.HasPrefix(text, "+++\n"):
		var inner string
		if inner, body, err = split(text, "+++"); err == nil {
			err = toml.Unmarshal([]byte(inner), &head)
		}
	case strings.HasPrefix(text, "{"):
		var inner string
		inner, body, _ = strings.Cut(text, "\n}\n")
		if inner += "\n}"; !gjson.Valid(inner) {
			err = errors.New("the head is not JSON")
		}
		head, _ = gjson.Parse(inner).Value().(map[string]any)
	}
	if err != nil {
		return Note{}, fmt.Errorf("cannot read the head: %w", err)
	}
	var n Note
	fields, err := json.Marshal(head)
	if err == nil {
		err = json.Unmarshal(fields, &n) // whatever the case of names
	}
	if err != nil {
		return Note{}, fmt.Errorf("cannot use the head: %w", err)
	}
	n.Body = body
	n.Title = cases.Title(language.English).String(n.Title)
	sum := blake2b.Sum256([]byte(n.Title + "\x00" + body))
	n.ID = base58.Encode(sum[:])
	return n, n.check()
}

// split returns what is between two lines, and what follows the second one.
func split(text, line string) (inner, rest string, err error) {
	inner, rest, found := strings.Cut(strings.TrimPrefix(text, line+"\n"), "\n"+line+"\n")
	if !found {
		return "", "", fmt.Errorf("it does not end with a line %s", line)
	}
	return inner, rest, nil
}

// check returns all that is wrong with a note.
func (n Note) check() (err error) {
	if n.Title == "" {
		err = multierr.Append(err, errors.New("there is no title"))
	}
	for i, tag := range n.Tags {
		if tag == "" {
			err = multierr.Append(err, fmt.Errorf("tag %d is empty", i+1))
		}
	}
	if n.Needs != "" {
		_, bad := semver.NewConstraint(n.Needs)
		err = multierr.Append(err, bad)
	}
	return err
}

// Reads reports whether a version of the reader can read a note.
func (n Note) Reads(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	c, err := semver.NewConstraint(n.Needs)
	return n.Needs == "" || err == nil && c.Check(v)
}
