package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

const someNonce = "0123456789abcdef0123456789abcdef"

func someGuest() *Guest {
	return &Guest{Version: Version, Build: "b", Nonce: someNonce, Workspace: "/w", Env: map[string]string{"A": "<&>"},
		Rlimits: GuestRlimits{CPUSeconds: 3}, Seccomp: "default", Isolation: json.RawMessage(`{"level":"none"}`)}
}

func TestGuestLine(t *testing.T) {
	line, err := someGuest().Line()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(line, []byte("\n")) != 1 || line[len(line)-1] != '\n' {
		t.Errorf("%q is not one line", line)
	}
	got, err := DecodeGuest(line)
	if err != nil || !reflect.DeepEqual(got, someGuest()) {
		t.Errorf("%+v, %v", got, err)
	}
	for name, change := range map[string]func(*Guest){
		"no nonce":          func(g *Guest) { g.Nonce = "" },
		"a nonce with more": func(g *Guest) { g.Nonce = someNonce + "0" },
		"no absolute path":  func(g *Guest) { g.Workspace = "w" },
		"another version":   func(g *Guest) { g.Version++ },
		"no sockets":        func(g *Guest) { g.Passage = &GuestPassage{Path: "/p"} },
		"too many sockets":  func(g *Guest) { g.Passage = &GuestPassage{Path: "/p", Sockets: MaxGuestSockets + 1} },
		"a passage nowhere": func(g *Guest) { g.Passage = &GuestPassage{Path: "p", Sockets: 1} },
		"too large":         func(g *Guest) { g.Env["B"] = strings.Repeat("x", MaxGuest) },
	} {
		g := someGuest()
		change(g)
		if line, err := g.Line(); err == nil {
			t.Errorf("%s: %.80s", name, line)
		}
	}
}

func TestDecodeGuestIsStrict(t *testing.T) {
	good := `{"version":1,"nonce":"` + someNonce + `","seccomp":"default"`
	if _, err := DecodeGuest([]byte(good + "}")); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"", "{}", good, good + `,"other":1}`, good + `}{}`, good + `,"Build":"x"}`, good + "}\xff", `["x"]`} {
		if g, err := DecodeGuest([]byte(line)); err == nil {
			t.Errorf("%s: %+v", line, g)
		}
	}
}

func TestFindGuestReady(t *testing.T) {
	answer, err := (&GuestReady{Version: 1, PID: 7, Workspace: "/w\x1b"}).AnswerLine(someNonce)
	if err != nil {
		t.Fatal(err)
	}
	mark := guestMark + someNonce + " "
	for _, tt := range []struct {
		name, read   string
		ready        bool
		banner, rest string
		err          string
	}{
		{"alone", string(answer), true, "", "", ""},
		{"a greeting", "hello" + string(answer) + "more", true, "hello", "more", ""},
		{"begun", "hello" + string(answer[:20]), false, "hello" + string(answer[:20]), "", ""},
		{"no newline yet", "hello\n" + mark + `{"version":1`, false, "hello", "", ""},
		{"a forged mark", "paddock-guest ffffffffffffffffffffffffffffffff {}\n" + string(answer), true,
			"paddock-guest ffffffffffffffffffffffffffffffff {}\n", "", ""},
		{"the request echoed", `{"nonce":"` + someNonce + `"}`, false, `{"nonce":"` + someNonce + `"}`, "", ""},
		{"no JSON", mark + "x\n", false, "", "", "cannot be read"},
		{"an unknown name", mark + `{"x":1}` + "\n", false, "", "", "cannot be read"},
		{"endless", strings.Repeat("x", MaxBanner+1000), false, strings.Repeat("x", MaxBanner), "", "more than 65536 bytes"},
		{"too late", strings.Repeat("x", MaxBanner+1) + string(answer), false, strings.Repeat("x", MaxBanner), "", "more than 65536 bytes"},
		{"an endless answer", mark + strings.Repeat("x", MaxGuestReady+1), false, "", "", "longer than 16384 bytes"},
	} {
		ready, banner, rest, err := FindGuestReady([]byte(tt.read), someNonce)
		if (ready != nil) != tt.ready || string(banner) != tt.banner || string(rest) != tt.rest {
			t.Errorf("%s: %+v, banner %.40q, rest %q", tt.name, ready, banner, rest)
		}
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
		if ready != nil && (ready.PID != 7 || ready.Workspace != "/w\uFFFD") {
			t.Errorf("%s: %+v", tt.name, ready)
		}
	}
}

func FuzzFindGuestReady(f *testing.F) {
	answer, _ := (&GuestReady{Failed: Errorf(CodeInternal, "x")}).AnswerLine(someNonce)
	f.Add(answer)
	f.Add([]byte("paddock-guest "))
	f.Fuzz(func(t *testing.T, read []byte) {
		ready, banner, rest, err := FindGuestReady(read, someNonce)
		if ready != nil && err != nil || len(banner)+len(rest) > len(read) || len(banner) > MaxBanner+64 {
			t.Errorf("%+v, %d of %d bytes, %v", ready, len(banner)+len(rest), len(read), err)
		}
	})
}

func FuzzDecodeGuest(f *testing.F) {
	line, _ := someGuest().Line()
	f.Add(line)
	f.Fuzz(func(t *testing.T, line []byte) {
		g, err := DecodeGuest(line)
		if err != nil {
			return
		}
		if _, err := g.Line(); err != nil && len(line) < MaxGuest/8 {
			t.Errorf("%s: %v", line, err)
		}
	})
}
