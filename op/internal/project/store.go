package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/internal/ownfile"
	"github.com/paddock-dev/paddock/internal/strictjson"
)

// FileName is the name of the list of trusted files, in the state directory.
const FileName = "projects.json"

// The bounds of the list.
const (
	maxProjects = 512
	maxFile     = 32 << 20         // bytes
	updateTime  = 10 * time.Second // how long a change waits for other processes
)

// Trusted is a project's file that the user trusts.
type Trusted struct {
	Dir    []byte    `json:"dir"` // bytes, since JSON text can only have UTF-8
	Inode  uint64    `json:"inode"`
	Born   int64     `json:"born"`
	SHA256 string    `json:"sha256"`
	Text   string    `json:"text"` // for the difference to a later one
	Since  time.Time `json:"since"`
}

// Same reports whether the file is the trusted one: the same bytes, in the same directory. A
// nil Trusted trusts nothing.
func (t *Trusted) Same(f *File) bool { return t != nil && t.SHA256 == f.Sum() && t.Here(f) }

// Here reports whether the directory is the one that the trusted file was in, and not another
// in its place. Device numbers do not count: they may change when the host boots.
func (t *Trusted) Here(f *File) bool {
	return t.Inode == f.inode && (t.Born == f.born || t.Born == 0 || f.born == 0)
}

// Store is the list of trusted files of one user.
type Store struct{ own *ownfile.File[[]Trusted] }

// document is the written form of the list.
type document struct {
	Projects []Trusted `json:"projects"`
}

// Open returns the list in a state directory. The list need not exist. Without a state
// directory it fails: a list in the current directory could be anybody's.
func Open(state string) (*Store, error) {
	if state == "" {
		if _, err := paddock.DefaultStateDir(); err != nil {
			return nil, err
		}
		return nil, &paddock.Error{Message: "cannot use the list of trusted projects: there is no state directory", Hint: "choose a directory of your own with " + paddock.StateDirEnv}
	}
	own, err := ownfile.New(filepath.Join(state, FileName), maxFile, func(data []byte) ([]Trusted, error) {
		var doc document
		err := strictjson.Unmarshal(data, &doc, strictjson.Options{})
		return doc.Projects, err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot use the list of trusted projects: %w", err)
	}
	return &Store{own}, nil
}

// Find returns what is trusted in a directory, nil if nothing is.
func (s *Store) Find(dir string) (*Trusted, error) {
	all, err := s.List()
	i := slices.IndexFunc(all, func(t Trusted) bool { return string(t.Dir) == dir })
	if err != nil || i < 0 {
		return nil, err
	}
	return &all[i], nil
}

// List returns everything that is trusted, sorted by directory. It must not be changed.
func (s *Store) List() ([]Trusted, error) {
	all, err := s.own.Read()
	return all, s.unavailable(err)
}

// Trust adds a file to the list, in place of what was trusted in its directory.
func (s *Store) Trust(ctx context.Context, f *File) error {
	return s.update(ctx, func(all []Trusted) ([]Trusted, error) {
		all = without(all, f.Dir)
		if len(all) >= maxProjects {
			all = slices.DeleteFunc(all, func(t Trusted) bool { // whose directory is gone
				_, err := os.Lstat(string(t.Dir))
				return errors.Is(err, fs.ErrNotExist)
			})
		}
		if len(all) >= maxProjects {
			return nil, &paddock.Error{Message: fmt.Sprintf("cannot trust another project: %d are trusted, which is the maximum", len(all)),
				Hint: "paddock trust --list, and paddock trust --remove DIR"}
		}
		return append(all, Trusted{Dir: []byte(f.Dir), Inode: f.inode, Born: f.born, SHA256: f.Sum(), Text: string(f.Text), Since: time.Now().UTC().Truncate(time.Second)}), nil
	})
}

// Remove removes a directory from the list, and reports whether it was there.
func (s *Store) Remove(ctx context.Context, dir string) (found bool, err error) {
	err = s.update(ctx, func(all []Trusted) ([]Trusted, error) {
		rest := without(all, dir)
		if found = len(rest) < len(all); !found {
			return nil, nil
		}
		return rest, nil
	})
	return found, err
}

// without returns a copy without a directory.
func without(all []Trusted, dir string) []Trusted {
	return slices.DeleteFunc(slices.Clone(all), func(t Trusted) bool { return string(t.Dir) == dir })
}

// update replaces the list by what change makes of it; nil leaves it as it is.
func (s *Store) update(ctx context.Context, change func([]Trusted) ([]Trusted, error)) error {
	ctx, cancel := context.WithTimeout(ctx, updateTime)
	defer cancel()
	var refused error
	err := s.own.Update(ctx, func(old []Trusted) ([]byte, error) {
		all, err := change(old)
		if refused = err; err != nil || all == nil {
			return nil, err
		}
		slices.SortFunc(all, func(a, b Trusted) int { return strings.Compare(string(a.Dir), string(b.Dir)) })
		return json.Marshal(document{all})
	})
	if refused != nil {
		return refused
	}
	return s.unavailable(err)
}

// unavailable returns the error of a list that cannot be used.
func (s *Store) unavailable(err error) error {
	if err == nil {
		return nil
	}
	e := &paddock.Error{Message: "cannot use the list of trusted projects in " + s.own.Path() + ": " + err.Error(), Hint: "look at it; without it, nothing is trusted"}
	if broken := (*ownfile.BrokenError)(nil); errors.As(err, &broken) && broken.Hint != "" {
		e.Hint = broken.Hint
	}
	return e
}
