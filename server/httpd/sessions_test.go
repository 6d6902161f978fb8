package httpd

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/privilege/token"
)

// TestOthersSessions: to one principal another's session does not exist.
func TestOthersSessions(t *testing.T) {
	w := begin(t, Options{})
	id := w.session(w.ann)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		if a := w.do(ask{method: method, token: w.bob, session: id}); a.status != http.StatusNotFound {
			t.Errorf("%s: %+v", method, a)
		}
	}
	if a := w.do(ask{token: w.ann, session: id}); a.status != http.StatusOK {
		t.Errorf("its own: %+v", a)
	}
	// Another token of the same principal is as good.
	again, _ := addToken(t, w.store, "ann", "", time.Time{})
	if a := w.do(ask{token: again, session: id}); a.status != http.StatusOK {
		t.Errorf("with another token: %+v", a)
	}
	if a := w.do(ask{method: http.MethodDelete, token: w.ann, session: id}); a.status != http.StatusNoContent {
		t.Errorf("its end: %+v", a)
	}
	if a := w.do(ask{token: w.ann, session: id}); a.status != http.StatusNotFound {
		t.Errorf("after its end: %+v", a)
	}
}

func (w *world) revoke(id, principal string) {
	w.t.Helper()
	if _, err := w.store.Revoke(w.t.Context(), id, principal); err != nil {
		w.t.Fatal(err)
	}
}

// TestRevokedWhileConnected: what came with a token ends with it, and nothing else.
func TestRevokedWhileConnected(t *testing.T) {
	w := begin(t, Options{Limits: Limits{Sweep: 10 * time.Millisecond}})
	second, _ := addToken(t, w.store, "ann", "", time.Time{})
	one, two, bobs := w.session(w.ann), w.session(second), w.session(w.bob)
	stream := w.stream(ask{method: http.MethodGet, token: w.ann, session: one})
	other := w.stream(ask{method: http.MethodGet, token: second, session: two})
	_, _ = await(t, "a stream begins", w.b.began), await(t, "another begins", w.b.began)

	w.revoke(w.annID, "")
	if a := w.do(ask{token: w.ann, session: one}); a.status != http.StatusUnauthorized {
		t.Errorf("the next request: %+v", a)
	}
	await(t, "the stream ends", stream)
	w.wait("the session ends", func() bool { return w.b.ended(one) })
	if a := w.do(ask{token: second, session: two}); a.status != http.StatusOK || w.b.ended(two) || len(w.b.forgotten()) > 0 {
		t.Errorf("the other token's session: %+v", a)
	}

	w.revoke("", "ann")
	await(t, "the other stream ends", other)
	w.wait("the principal is forgotten", func() bool { return slices.Equal(w.b.forgotten(), []string{"ann"}) })
	w.wait("its session ends", func() bool { return w.b.ended(two) })
	if a := w.do(ask{token: w.bob, session: bobs}); a.status != http.StatusOK {
		t.Errorf("another principal: %+v", a)
	}
}

// TestExpiresWhileConnected: so it is with a token whose time is up.
func TestExpiresWhileConnected(t *testing.T) {
	w := begin(t, Options{Limits: Limits{Sweep: 10 * time.Millisecond}})
	brief, _ := addToken(t, w.store, "eve", "/srv/eve", time.Now().Add(3*time.Second))
	id := w.session(brief)
	stream := w.stream(ask{method: http.MethodGet, token: brief, session: id})
	await(t, "the stream ends", stream)
	w.wait("the principal is forgotten", func() bool { return slices.Equal(w.b.forgotten(), []string{"eve"}) })
	if a := w.do(ask{token: brief, session: id}); a.status != http.StatusUnauthorized {
		t.Errorf("%+v", a)
	}
}

// TestOtherBounds: what a principal has under bounds that no longer hold ends
// before it gets anything under the new ones.
func TestOtherBounds(t *testing.T) {
	w := begin(t, Options{Limits: Limits{Sweep: time.Hour}})
	id := w.session(w.ann)
	w.revoke("", "ann")
	fresh, _ := addToken(t, w.store, "ann", "/srv/other", time.Time{})
	w.wait("it comes in again", func() bool {
		a := w.do(ask{token: fresh, session: id})
		if a.status == http.StatusOK {
			t.Fatal("a session lives on under other bounds")
		}
		return a.status == http.StatusNotFound
	})
	if got := w.b.forgotten(); !slices.Equal(got, []string{"ann"}) {
		t.Errorf("forgotten: %v", got)
	}
	if w.session(fresh) == id {
		t.Error("the session is the old one")
	}
}

func TestIdleSessions(t *testing.T) {
	w := begin(t, Options{Limits: Limits{Sweep: time.Hour, Idle: time.Hour}})
	idle, busy := w.session(w.ann), w.session(w.ann)
	stream := w.stream(ask{method: http.MethodGet, token: w.ann, session: busy})
	await(t, "the stream begins", w.b.began)
	w.f.sessions.sweep(time.Now().Add(30 * time.Minute))
	if a := w.do(ask{token: w.ann, session: idle}); a.status != http.StatusOK {
		t.Errorf("within its time: %+v", a)
	}
	w.f.sessions.sweep(time.Now().Add(61 * time.Minute))
	w.wait("the idle one ends", func() bool { return w.b.ended(idle) })
	if a := w.do(ask{token: w.ann, session: idle}); a.status != http.StatusNotFound {
		t.Errorf("after its time: %+v", a)
	}
	select {
	case <-stream:
		t.Error("one with a stream was ended")
	default:
	}
}

func TestCaps(t *testing.T) {
	w := begin(t, Options{Limits: Limits{Sessions: 3, SessionsEach: 2, RequestsEach: 2, Requests: 3, Rest: time.Hour}})
	full := func(name, token string) {
		t.Helper()
		if a := w.do(ask{token: token, body: "{}"}); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %+v", name, a)
		}
	}
	one := w.session(w.ann)
	w.session(w.ann)
	full("a third session of one", w.ann)
	if a := w.do(ask{method: http.MethodDelete, token: w.ann, session: one}); a.status != http.StatusNoContent {
		t.Errorf("%+v", a)
	}
	w.session(w.ann)
	bobs := w.session(w.bob)
	full("a fourth of all", w.bob)
	// What begins no session gives its room back.
	w.do(ask{method: http.MethodDelete, token: w.bob, session: bobs})
	for range 5 {
		if a := w.do(ask{token: w.bob, body: "none"}); a.status != http.StatusOK {
			t.Errorf("%+v", a)
		}
	}
	bobs = w.session(w.bob)

	a, b := w.stream(ask{token: w.bob, session: bobs, body: "block"}), w.stream(ask{token: w.bob, session: bobs, body: "block"})
	_, _ = await(t, "one blocks", w.b.began), await(t, "another blocks", w.b.began)
	full("a third request of one", w.bob)
	if a := w.do(ask{token: w.ann, session: "s2"}); a.status != http.StatusOK {
		t.Errorf("another principal: %+v", a)
	}
	w.revoke("", "bob")
	w.f.sessions.sweep(time.Now())
	await(t, "it ends", a)
	await(t, "it ends", b)
}

// TestRestingSessionGivesWay: clients that never say that they leave do not lock
// their principal out; what is in use stays, and so does what is another's.
func TestRestingSessionGivesWay(t *testing.T) {
	w := begin(t, Options{Limits: Limits{SessionsEach: 3, Rest: time.Nanosecond}})
	bobs, first, busy, second := w.session(w.bob), w.session(w.ann), w.session(w.ann), w.session(w.ann)
	stream := w.stream(ask{method: http.MethodGet, token: w.ann, session: busy})
	await(t, "the stream begins", w.b.began)
	w.do(ask{token: w.ann, session: first}) // now the second has rested longest
	third := w.session(w.ann)
	w.wait("the second ends", func() bool { return w.b.ended(second) })
	for _, s := range []struct{ token, id string }{{w.ann, first}, {w.ann, third}, {w.bob, bobs}} {
		if a := w.do(ask{token: s.token, session: s.id}); a.status != http.StatusOK {
			t.Errorf("%+v", a)
		}
	}
	for range 5 {
		w.session(w.ann)
	}
	select {
	case <-stream:
		t.Error("one with a stream was ended")
	default:
	}
}

// TestGuestIsForgotten: a principal that left holds nothing.
func TestGuestIsForgotten(t *testing.T) {
	w := begin(t, Options{})
	w.session(w.ann)
	w.revoke("", "ann")
	w.f.sessions.sweep(time.Now())
	w.wait("it has left", func() bool {
		g := w.f.sessions
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.principals) == 0 && len(g.sessions) == 0 && len(g.forgetting) == 0 && g.requests == 0 && g.starting == 0
	})
	if _, err := w.store.Check(w.ann, time.Now()); err != token.ErrUnknown {
		t.Error(err)
	}
}
