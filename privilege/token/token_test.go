package token_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/paddock-dev/paddock/policy"
	"github.com/paddock-dev/paddock/privilege/token"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)

func open(t *testing.T) *token.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	s, err := token.Open(filepath.Join(dir, token.FileName))
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func over(dir string) *token.Bounds {
	return &token.Bounds{
		Ceiling: policy.Ceiling{Workspace: []policy.Place{{Source: dir, Mode: "rw"}}, Limits: policy.Limits{Memory: 1 << 30}},
		Default: policy.Spec{Workspace: policy.Workspace{Source: dir}, Limits: policy.Limits{Timeout: policy.Duration(time.Minute)}},
	}
}

func create(t *testing.T, s *token.Store, n token.New) (string, token.Holder) {
	t.Helper()
	text, made, err := s.Create(t.Context(), n, now)
	must(t, err)
	return text, made
}

// TestLetsIn: a token lets its principal in, with its bounds, until it ends.
func TestLetsIn(t *testing.T) {
	s := open(t)
	text, made := create(t, s, token.New{Principal: "agent:ann", Bounds: over("/srv/ann"), Expires: now.Add(time.Hour)})
	if !strings.HasPrefix(text, "pdk_"+made.Token.ID+"_") || len(text) != 65 {
		t.Errorf("the token is %q, with the ID %q", text, made.Token.ID)
	}
	// Another process sees what is in the file.
	other, err := token.Open(s.Path())
	must(t, err)
	who, err := other.Check(text, now)
	must(t, err)
	if who.Principal.Name != "agent:ann" || who.Principal.Admin {
		t.Errorf("it lets in %+v", who.Principal)
	}
	if diff := cmp.Diff(over("/srv/ann"), who.Bounds); diff != "" {
		t.Errorf("bounds: %s", diff)
	}
	data, err := os.ReadFile(s.Path())
	must(t, err)
	if strings.Contains(string(data), text[13:]) {
		t.Error("the file holds the secret")
	}
	if info, err := os.Stat(s.Path()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	for name, tt := range map[string]struct {
		text string
		at   time.Time
		want error
	}{
		"at its last moment":    {text, now.Add(time.Hour - time.Second), nil},
		"expired":               {text, now.Add(time.Hour), token.ErrExpired},
		"nothing":               {"", now, token.ErrUnknown},
		"its ID alone":          {made.Token.ID, now, token.ErrUnknown},
		"another secret":        {text[:64] + string('a'+(text[64]-'a'+1)%4), now, token.ErrUnknown},
		"cut short":             {text[:64], now, token.ErrUnknown},
		"longer":                {text + "a", now, token.ErrUnknown},
		"in capitals":           {strings.ToUpper(text), now, token.ErrUnknown},
		"of an ID that is none": {"pdk_aaaaaaaa_" + text[13:], now, token.ErrUnknown},
		"its hash":              {hashOf(data), now, token.ErrUnknown},
	} {
		if _, err := s.Check(tt.text, tt.at); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

func hashOf(file []byte) string {
	_, rest, _ := strings.Cut(string(file), `"sha256": "`)
	return rest[:64]
}

// TestRevoked: a token that one process takes away is refused by the others.
func TestRevoked(t *testing.T) {
	s := open(t)
	other, err := token.Open(s.Path())
	must(t, err)
	one, first := create(t, s, token.New{Principal: "a", Bounds: over("/srv/a")})
	two, _ := create(t, s, token.New{Principal: "a"})
	three, _ := create(t, s, token.New{Principal: "b", Bounds: over("/srv/b")})
	check := func(want ...error) {
		t.Helper()
		for i, text := range []string{one, two, three} {
			if _, err := other.Check(text, now); !errors.Is(err, want[i]) {
				t.Errorf("token %d: %v, want %v", i+1, err, want[i])
			}
		}
	}
	check(nil, nil, nil)
	gone, err := s.Revoke(t.Context(), first.Token.ID, "")
	must(t, err)
	if len(gone) != 1 || gone[0].ID != first.Token.ID || gone[0].Principal != "a" {
		t.Errorf("revoked %+v", gone)
	}
	check(token.ErrUnknown, nil, nil)
	if _, err := s.Revoke(t.Context(), first.Token.ID, ""); !errors.Is(err, token.ErrNoToken) {
		t.Errorf("again: %v", err)
	}
	if _, err := s.Revoke(t.Context(), "", "a"); err != nil {
		t.Error(err)
	}
	check(token.ErrUnknown, token.ErrUnknown, nil)
	if b, err := s.Bounds("a"); b != nil || err != nil {
		t.Errorf("bounds of who has no token: %+v, %v", b, err)
	}
	// Without a token the principal can begin with other bounds.
	create(t, s, token.New{Principal: "a", Bounds: over("/srv/other")})
}

func TestCreateRefuses(t *testing.T) {
	s := open(t)
	create(t, s, token.New{Principal: "a", Bounds: over("/srv/a")})
	wide := over("/srv/a")
	wide.Default.Network.Mode = "host"
	for name, tt := range map[string]struct {
		new  token.New
		want string
	}{
		"no principal":        {token.New{Bounds: over("/srv/a")}, "cannot use the principal"},
		"a name that is none": {token.New{Principal: "a b", Bounds: over("/srv/a")}, "cannot use the principal"},
		"no bounds":           {token.New{Principal: "new"}, "cannot use workspace"},
		"other bounds":        {token.New{Principal: "a", Bounds: over("/srv/b")}, "its other tokens have other bounds"},
		"an empty ceiling":    {token.New{Principal: "new", Bounds: &token.Bounds{}}, "no directory may be a workspace"},
		"a default above it":  {token.New{Principal: "new", Bounds: wide}, "the ceiling does not allow it"},
		"expired":             {token.New{Principal: "a", Expires: now}, "it must be in the future"},
	} {
		if _, _, err := s.Create(t.Context(), tt.new, now); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	all, err := s.List()
	if err != nil || len(all) != 1 {
		t.Errorf("%d tokens, %v", len(all), err)
	}
}

// TestOldOnesGo: what has expired is listed for a week, and then dropped.
func TestOldOnesGo(t *testing.T) {
	s := open(t)
	create(t, s, token.New{Principal: "a", Bounds: over("/srv/a"), Expires: now.Add(time.Hour)})
	for _, tt := range []struct {
		after time.Duration
		want  int
	}{{2 * time.Hour, 2}, {9 * 24 * time.Hour, 2}} {
		_, _, err := s.Create(t.Context(), token.New{Principal: "b", Bounds: over("/srv/b")}, now.Add(tt.after))
		must(t, err)
		all, err := s.List()
		must(t, err)
		if len(all) != tt.want {
			t.Errorf("after %v there are %d", tt.after, len(all))
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	s := open(t)
	var work sync.WaitGroup
	for i := range 4 {
		own, err := token.Open(s.Path())
		must(t, err)
		for j := range 5 {
			work.Go(func() {
				if _, _, err := own.Create(t.Context(), token.New{Principal: fmt.Sprintf("p%d-%d", i, j), Bounds: over("/srv")}, now); err != nil {
					t.Error(err)
				}
			})
		}
	}
	work.Wait()
	if all, err := s.List(); err != nil || len(all) != 20 {
		t.Errorf("%d tokens, %v", len(all), err)
	}
}

// TestBrokenFile: nobody comes in by a file that is not as it was written.
func TestBrokenFile(t *testing.T) {
	s := open(t)
	text, _ := create(t, s, token.New{Principal: "a", Bounds: over("/srv/a")})
	good, err := os.ReadFile(s.Path())
	must(t, err)
	for name, breakIt := range map[string]func() error{
		"others may write": func() error { return os.Chmod(s.Path(), 0o622) },
		"half of it":       func() error { return os.WriteFile(s.Path(), good[:len(good)/2], 0o600) },
		"empty":            func() error { return os.WriteFile(s.Path(), nil, 0o600) },
		"another field":    replaced(s, good, `"principal": "a"`, `"principal": "a", "admin": true`),
		"a field twice":    replaced(s, good, `"principal": "a"`, `"principal": "a", "principal": "a"`),
		"in other case":    replaced(s, good, `"sha256"`, `"SHA256"`),
		"no bounds":        replaced(s, good, `"principal": "a"`, `"principal": "b"`),
		"a short hash":     replaced(s, good, hashOf(good), hashOf(good)[2:]),
		"a wide ceiling":   replaced(s, good, `"/srv/a"`, `"srv/a"`),
		"a link": func() error {
			return errors.Join(os.Rename(s.Path(), s.Path()+".x"), os.Symlink(s.Path()+".x", s.Path()))
		},
	} {
		must(t, breakIt())
		down := (*token.UnavailableError)(nil)
		if _, err := s.Check(text, now); !errors.As(err, &down) || !strings.HasPrefix(err.Error(), "cannot use the tokens in "+s.Path()) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := token.Open(s.Path()); !errors.As(err, &down) {
			t.Errorf("%s: opened: %v", name, err)
		}
		must(t, errors.Join(os.RemoveAll(s.Path()), os.WriteFile(s.Path(), good, 0o600)))
		if _, err := s.Check(text, now); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
	must(t, os.Remove(s.Path()))
	if _, err := s.Check(text, now); !errors.Is(err, token.ErrUnknown) {
		t.Errorf("without a file: %v", err)
	}
}

func replaced(s *token.Store, good []byte, old, with string) func() error {
	return func() error {
		return os.WriteFile(s.Path(), []byte(strings.ReplaceAll(string(good), old, with)), 0o600)
	}
}

func BenchmarkCheck(b *testing.B) {
	s, err := token.Open(filepath.Join(b.TempDir(), "state", token.FileName))
	if err != nil {
		b.Fatal(err)
	}
	text, _, err := s.Create(b.Context(), token.New{Principal: "a", Bounds: over("/srv/a")}, now)
	if err != nil {
		b.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(s.Path(), old, old); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Check(text, now); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEarlierFile: a file from before ceilings were held to defaults lets in as before, and what its
// ceilings leave out is the default at most. A principal whose own sandbox has more ends nobody else's token.
func TestEarlierFile(t *testing.T) {
	text, err := os.ReadFile("testdata/unbounded.json")
	must(t, err)
	at := filepath.Join(t.TempDir(), token.FileName)
	must(t, os.WriteFile(at, text, 0o600))
	s, err := token.Open(at)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	holder := func(letter string) token.Holder {
		t.Helper()
		h, err := s.Check("pdk_"+strings.Repeat(letter, 8)+"_"+strings.Repeat(letter, 52), now)
		must(t, err)
		return h
	}
	ann := holder("a").Bounds
	if _, err := ann.Ceiling.Apply(ann.Default); err != nil {
		t.Errorf("the default sandbox: %v", err)
	}
	for field, limits := range map[string]policy.Limits{"tmp": {Tmp: 10 << 40}, "processes": {Processes: 100000}, "disk": {Disk: 1 << 50}} {
		spec := ann.Default
		spec.Limits = limits
		spec.Workspace.Mode = policy.ModeCopy // which has a disk
		if _, err := ann.Ceiling.Apply(spec); err == nil || !strings.Contains(err.Error(), "limits."+field) {
			t.Errorf("%s beyond the default: %v", field, err)
		}
	}
	big := holder("b").Bounds
	if _, err := big.Ceiling.Apply(big.Default); err == nil || !strings.Contains(err.Error(), "limits.tmp") {
		t.Errorf("a default sandbox beyond the default: %v", err)
	}
	create(t, s, token.New{Principal: "agent:ann", Bounds: &token.Bounds{Ceiling: *ann.Ceiling.Explicit(), Default: ann.Default}}) // the same bounds, written down
	holder("b")
}
