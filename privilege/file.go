package privilege

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/paddock-dev/paddock/internal/ownfile"
	"github.com/paddock-dev/paddock/internal/strictjson"
)

// updateTime bounds how long an update waits for other writers.
const updateTime = 10 * time.Second

const (
	// maxFile bounds the file, in bytes: room for [MaxPrincipals] of the longest names.
	maxFile = 16 << 20
	// fileVersion is the version of the format.
	fileVersion = 1
)

// File is a store in one file of JSON:
//
//	{"version": 1, "principals": {"user:ann": "0x4"}}
//
// Only the caller and root may be able to write or replace it (internal/ownfile): otherwise
// every method returns an error. A file that does not exist grants nothing.
type File struct {
	own *ownfile.File[map[string]Set]
}

// OpenFile opens the store in the file at path, which need not exist: the first grant creates
// it with mode 0600, and its directory with mode 0700. If an existing file cannot be used,
// OpenFile returns an error, as does every method.
func OpenFile(path string) (Store, error) {
	own, err := ownfile.New(path, maxFile, func(data []byte) (map[string]Set, error) {
		grants, err := parse(data)
		if err != nil {
			return nil, &ownfile.BrokenError{Reason: err.Error(), Hint: "replace it by a good copy, or remove it: then nobody holds anything"}
		}
		return grants, nil
	})
	if err != nil {
		return nil, &Unavailable{Store: quote(path), Cause: err}
	}
	f := &File{own}
	if _, err := f.read(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) read() (map[string]Set, error) {
	grants, err := f.own.Read()
	return grants, f.unavailable(err)
}

// Get returns the privileges that the file grants to a principal.
func (f *File) Get(ctx context.Context, principal string) (Set, error) {
	if err := errors.Join(ctx.Err(), CheckName(principal)); err != nil {
		return 0, err
	}
	grants, err := f.read()
	return grants[principal], err
}

// List returns the privileges that the file grants to each principal.
func (f *File) List(ctx context.Context) (map[string]Set, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	grants, err := f.read()
	if err != nil {
		return nil, err
	}
	return copied(grants), nil
}

// copied returns a copy, which is never nil.
func copied(grants map[string]Set) map[string]Set {
	all := make(map[string]Set, len(grants))
	maps.Copy(all, grants)
	return all
}

// Update changes a principal's privileges. It waits at most ten seconds for other writers, or
// until ctx ends.
func (f *File) Update(ctx context.Context, principal string, change func(Set) Set) (before, after Set, err error) {
	if err := CheckName(principal); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	err = f.own.Update(ctx, func(old map[string]Set) ([]byte, error) {
		before = old[principal]
		after = change(before)
		if after == before {
			return nil, nil
		}
		grants := copied(old)
		grants[principal] = after
		if after == 0 {
			delete(grants, principal)
		}
		return encode(grants)
	})
	if err != nil {
		return 0, 0, f.unavailable(err)
	}
	return before, after, nil
}

// Close frees the cached content.
func (f *File) Close() error { return f.own.Close() }

// Owned reports whether the file at path belongs to the user who runs this program, or would
// if it were created: then this user is an administrator. It returns false if that cannot be
// found out.
func Owned(path string) bool { return ownfile.Owned(path) }

func (f *File) unavailable(err error) error {
	if err == nil {
		return nil
	}
	u := &Unavailable{Store: f.own.Path(), Cause: err}
	if broken := (*ownfile.BrokenError)(nil); errors.As(err, &broken) {
		u.Hint = broken.Hint
	}
	return u
}

// parse reads the text of the file. Anything that could be read in two ways is an error,
// such as a principal that appears twice.
func parse(data []byte) (map[string]Set, error) {
	var doc struct {
		Version    int            `json:"version"`
		Principals map[string]Set `json:"principals"`
	}
	if err := strictjson.Unmarshal(data, &doc, strictjson.Options{NoNull: true}); err != nil {
		return nil, fmt.Errorf("it is not what Paddock writes: %v", err)
	}
	if doc.Version != fileVersion {
		return nil, fmt.Errorf("unknown version %d of the file, this Paddock reads version %d", doc.Version, fileVersion)
	}
	if doc.Principals == nil {
		return nil, errors.New("it is not what Paddock writes: principals are missing")
	}
	if len(doc.Principals) > MaxPrincipals {
		return nil, fmt.Errorf("there are more than %d principals", MaxPrincipals)
	}
	for name := range doc.Principals {
		if err := CheckName(name); err != nil {
			return nil, err
		}
	}
	return doc.Principals, nil
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

// MaxPrincipals bounds how many principals a store holds.
const MaxPrincipals = 1 << 16

// Store keeps grants. Its methods are safe for concurrent use by many goroutines and many
// processes.
type Store interface {
	// Get returns the privileges that were granted to a principal, or 0. If the store cannot
	// be read it returns an error.
	Get(ctx context.Context, principal string) (Set, error)
	// Update changes the privileges of a principal, and returns them before and after. It is
	// atomic: change may be called several times, its last result is stored, and no
	// concurrent change is lost.
	Update(ctx context.Context, principal string, change func(Set) Set) (before, after Set, err error)
	// List returns what each principal was granted. More than [MaxPrincipals] are an error.
	List(ctx context.Context) (map[string]Set, error)
	// Close frees the store's resources.
	Close() error
}

// Unavailable says that a store cannot be used: it cannot be reached, or its content is
// invalid.
type Unavailable struct { //nolint:errname // it is the state of a store
	// Store names the store, without its password.
	Store string
	Cause error
	// Hint says what to do about it. It may be empty.
	Hint string
}

// Error says which store and why.
func (e *Unavailable) Error() string {
	return "cannot use the privileges in " + e.Store + ": " + e.Cause.Error()
}

// Unwrap returns the cause.
func (e *Unavailable) Unwrap() error { return e.Cause }
