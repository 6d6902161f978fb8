package wire

import "testing"

func TestTokenOf(t *testing.T) {
	tests := map[string]struct {
		line, want string
		found      bool
	}{
		"nothing":             {``, "", false},
		"alone":               {`{"token":"x"}`, "x", true},
		"in a line that ends": {` { "a" : [1,{"token":"y"}], "token" : "x" , "b":`, "x", true},
		"escapes":             {`{"token":"\u0061\"\\"`, `a"\`, true},
		"not whole":           {`{"token":"x`, "", false},
		"no colon":            {`{"token"`, "", false},
		"no text":             {`{"token":1,"token":"x"}`, "", false},
		"of another object":   {`{"a":{"token":"x"}}`, "", false},
		"a value":             {`{"a":"token","b":"x"}`, "", false},
		"in a text":           {`{"a":"\"token\":\"x\""}`, "", false},
		"another name":        {`{"Token":"x","token ":"x"}`, "", false},
		"of a list":           {`["token","x"]`, "", false},
	}
	for name, tt := range tests {
		if got, found := TokenOf([]byte(tt.line)); got != tt.want || found != tt.found {
			t.Errorf("%s: %q, %v; want %q, %v", name, got, found, tt.want, tt.found)
		}
	}
}

// A token that is found stays the one that is found, however the line goes on,
// and it is the request's own where that has one.
func FuzzTokenOf(f *testing.F) {
	for _, seed := range []string{`{"token":"x"}`, `{"a":["token"],"token":"\u0061"}`, `{"token":`, `"token":"x"`, "\"\\"} {
		f.Add([]byte(seed), 5)
	}
	f.Fuzz(func(t *testing.T, line []byte, cut int) {
		whole, found := TokenOf(line)
		begun, early := TokenOf(line[:uint(cut)%uint(len(line)+1)])
		if early && (!found || begun != whole) {
			t.Fatalf("found %q at first, then %q, %v", begun, whole, found)
		}
	})
}
