package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.invalid/notes/note"
)

func notes(n int) (all []note.Note) {
	for i := range n {
		all = append(all, note.Note{ID: fmt.Sprint(i), Title: fmt.Sprintf("Note %03d", i), Body: strings.Repeat("text ", i)})
	}
	return all
}

func TestStore(t *testing.T) {
	s, err := New(8)
	if err != nil {
		t.Fatal(err)
	}
	all := notes(200)
	if err := s.Put(all...); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, want := range all {
			got, err := s.Get(want.ID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
		}
	}
	if _, err := s.Get("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a note that is not there: %v", err)
	}
	titles, err := s.Find("note 01[0-2]")
	if diff := cmp.Diff([]string{"Note 010", "Note 011", "Note 012"}, titles); diff != "" || err != nil {
		t.Errorf("found (-want +got):\n%s%v", diff, err)
	}
}

func TestDigest(t *testing.T) {
	a, _ := New(1)
	b, _ := New(1)
	all := notes(20)
	for i := range all {
		_ = a.Put(all[i])
		_ = b.Put(all[len(all)-1-i])
	}
	if a.Digest() != b.Digest() {
		t.Error("the digest depends on the order")
	}
	_ = b.Put(note.Note{ID: "one more"})
	if a.Digest() == b.Digest() {
		t.Error("the digest does not depend on the notes")
	}
}

func TestDamage(t *testing.T) {
	s, _ := New(1)
	_ = s.Put(notes(1)...)
	s.kept["0"].data[0]++
	if _, err := s.Get("0"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged note: %v", err)
	}
}
