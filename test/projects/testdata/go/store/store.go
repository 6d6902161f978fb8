// Package store keeps notes compressed, and finds them again.
package store

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/cespare/xxhash/v2"
	"github.com/gobwas/glob"
	"github.com/golang/snappy"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/crypto/blake2b"
	"golang.org/x/sync/errgroup"

	"example.invalid/notes/note"
)

// Store keeps notes by their identifiers.
type Store struct {
	mu    sync.Mutex
	kept  map[string]kept
	fresh *lru.Cache[string, note.Note] // those that were read last
}

type kept struct {
	data []byte // compressed
	sum  uint64 // of data
}

// New returns a store that has so many notes at hand.
func New(fresh int) (*Store, error) {
	c, err := lru.New[string, note.Note](fresh)
	return &Store{kept: map[string]kept{}, fresh: c}, err
}

// Put keeps notes.
func (s *Store) Put(notes ...note.Note) error {
	var g errgroup.Group
	g.SetLimit(4)
	for _, n := range notes {
		g.Go(func() error {
			text, err := json.Marshal(n)
			if err != nil {
				return err
			}
			data := snappy.Encode(nil, text)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.kept[n.ID] = kept{data, xxhash.Sum64(data)}
			s.fresh.Remove(n.ID)
			return nil
		})
	}
	return g.Wait()
}

// Get returns a note.
func (s *Store) Get(id string) (n note.Note, err error) {
	if n, ok := s.fresh.Get(id); ok {
		return n, nil
	}
	s.mu.Lock()
	k, ok := s.kept[id]
	s.mu.Unlock()
	if !ok {
		return n, fs.ErrNotExist
	}
	if xxhash.Sum64(k.data) != k.sum {
		return n, fmt.Errorf("note %s is damaged", id)
	}
	text, err := snappy.Decode(nil, k.data)
	if err == nil {
		err = json.Unmarshal(text, &n)
	}
	if err == nil {
		s.fresh.Add(id, n)
	}
	return n, err
}

// Find returns the titles of the notes whose title matches a pattern, in order.
func (s *Store) Find(pattern string) (titles []string, err error) {
	g, err := glob.Compile(strings.ToLower(pattern))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	var ids []string
	for id := range s.kept {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		n, err := s.Get(id)
		if err != nil {
			return nil, err
		}
		if g.Match(strings.ToLower(n.Title)) {
			titles = append(titles, n.Title)
		}
	}
	slices.Sort(titles)
	return titles, nil
}

// Digest returns a digest of all notes, whatever their order.
func (s *Store) Digest() [blake2b.Size256]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id := range s.kept {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return blake2b.Sum256([]byte(strings.Join(ids, "\n")))
}
