package layerstore

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// The records of a layer that an earlier version wrote are read, and it can be started again.
func TestFixtures(t *testing.T) {
	s, source := newStore(t)
	h := s.mustMake(t, New{ID: "pd-fixture", Source: source})
	h.Release()
	var was Record
	for _, name := range []string{recordName, knownName, renamesName} {
		text, err := os.ReadFile(filepath.Join("testdata", "679cc6da", name))
		must(t, err)
		if name == recordName { // with what is another one here
			for old, now := range map[string]string{
				"/tmp/fixture/source":                  source,
				"/tmp/fixture/state/layers/pd-fixture": h.dir,
				`"ino":10120353`:                       `"ino":` + strconv.FormatUint(h.Ino, 10),
				`"born":1795883769156390785`:           `"born":` + strconv.FormatInt(h.Born, 10),
				"f63cc07836a7a927":                     h.FS,
				"065dd2b0-01ff-43e4-a310-9bed8ce753f7": h.Boot,
			} {
				if !bytes.Contains(text, []byte(old)) {
					t.Errorf("the record has no %s", old)
				}
				text = bytes.ReplaceAll(text, []byte(old), []byte(now))
			}
		}
		must(t, os.WriteFile(filepath.Join(h.dir, name), text, 0o600))
	}
	h, err := s.Open("pd-fixture")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	was = h.Record
	if was.Began.Boottime != 5486661912441 || was.Began.Realtime.UnixNano() != 1795883769159178565 || !was.Started.Realtime.IsZero() || len(was.Command) != 2 || was.Ends {
		t.Errorf("the record: %+v", was)
	}
	known, err := h.Known()
	if err != nil || len(known) != 2 || !known["a\xff\n"].Landed || known["file"].Identity.Ino != 10120356 || len(known["file"].Sum) != 32 {
		t.Errorf("known: %+v, %v", known, err)
	}
	if all, err := h.Renames(); err != nil || len(all) != 1 || string(all[0].From) != "a" || string(all[0].Path) != "b\xff" {
		t.Errorf("renames: %q, %v", all, err)
	}
	if since, err := h.Since(); err != nil || len(since) > 0 {
		t.Errorf("since: %v, %v", since, err)
	}
	l, err := h.Layer()
	if err != nil {
		t.Fatal(err)
	}
	must(t, l.Source.Close(), l.Upper.Close())
	must(t, h.Restart(h.Began, l.Restart(nil, nil)))
}
