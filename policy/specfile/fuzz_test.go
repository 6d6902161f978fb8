package specfile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/paddock-dev/paddock/policy"
)

// TestHostileFilesAreQuick keeps large documents of the worst shapes from
// taking more than a moment. The bound is wide, for slow machines under
// the race detector: what it catches is time that grows with the square.
func TestHostileFilesAreQuick(t *testing.T) {
	for _, unit := range []string{"[", "{a: ", "? ", "- #\n", "a: b\n", "a:\n #\n", "x: &x\n", "[]", "'", "|\n"} {
		start := time.Now()
		if _, err := Decode("f", []byte(strings.Repeat(unit, MaxSize/4/len(unit)))); err == nil {
			t.Errorf("%q: no error", unit)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("a document full of %q took %v", unit, took)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("s.yaml", []byte(fullYAML))
	f.Add("s.json", []byte(`{"limits":{"tmp":"1GiB","processes":64},"env":{"A":1},"mounts":[{"source":"a"}]}`))
	f.Add("s", []byte("{\"a\": \"b\"}"))
	f.Add("s.yaml", []byte("a: &a [*a]\n---\n? [x]\n: !!str |\n  x\n"))
	f.Add("s.json", []byte("{\n\"x\":[{}, null,]}"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		spec, err := Decode(name, data)
		if err != nil {
			if len(policy.FieldErrors(err)) == 0 {
				t.Fatalf("no FieldError: %v", err)
			}
			return
		}
		written, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode("again.json", written); err != nil && !strings.Contains(err.Error(), "source: it is empty") {
			t.Fatalf("cannot read %s again: %v", written, err)
		}
	})
}
