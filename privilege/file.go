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

// updateTime bounds how long an update waits for others to be done with the
// file.
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
// Nobody but the file's owner and root may be able to change it, or to put
// another into its place: it is a regular file with one name, it and its
// directory belong to the caller or to root, and no others may write to
// either. Whatever does not look like that is an error for every question. A
// file that is not there holds no grants.
//
// A change is written to a second file beside it, put on disk, and renamed, so
// that readers wait for nobody and find the old file or the new one. Who
// changes holds a lock on a third, NAME.lock, which stays.
type File struct {
	own *ownfile.File[map[string]Set]
}

// OpenFile opens the store in the file at path, which need not be there yet:
// the first grant makes it, with mode 0600, and its directory with mode 0700.
// What is wrong with an existing file is told here, and again by every question.
func OpenFile(path string) (Store, error) {
	own, err := ownfile.New(path, maxFile, func(data []byte) (map[string]Set, error) {
		grants, err := parse(data)
		if err != nil {
			return nil, &ownfile.BrokenError{Reason: err.Error(), Hint: "put a good copy into its place, or remove it: then nobody holds anything"}
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

// Get is what the file grants to a principal.
func (f *File) Get(ctx context.Context, principal string) (Set, error) {
	if err := errors.Join(ctx.Err(), CheckName(principal)); err != nil {
		return 0, err
	}
	grants, err := f.read()
	return grants[principal], err
}

// List is all that the file grants.
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

// copied is never nil.
func copied(grants map[string]Set) map[string]Set {
	all := make(map[string]Set, len(grants))
	maps.Copy(all, grants)
	return all
}

// Update changes one line of the file. It waits at most ten seconds for others
// to be done, and less where ctx ends.
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

// Close forgets what was read.
func (f *File) Close() error { return f.own.Close() }

// Owned says whether the file at path belongs to the user who runs this
// program, or will, because there is none: then that is an administrator of
// it. It says no in doubt.
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
		return nil, fmt.Errorf("not a file that Paddock wrote: %v", err)
	}
	if doc.Version != fileVersion {
		return nil, fmt.Errorf("unknown version %d of the file, this Paddock reads version %d", doc.Version, fileVersion)
	}
	if doc.Principals == nil {
		return nil, errors.New("not a file that Paddock wrote: principals are missing")
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
