package note

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/multierr"
)

func TestParse(t *testing.T) {
	want := Note{Title: "A Day Out", Tags: []string{"sea", "sun"}, Needs: ">= 1.2", Body: "Off we go.\n"}
	for name, text := range map[string]string{
		"yaml": "---\ntitle: a day out\ntags: [sea, sun]\nneeds: \">= 1.2\"\n---\nOff we go.\n",
		"toml": "+++\ntitle = \"a day out\"\ntags = [\"sea\", \"sun\"]\nneeds = \">= 1.2\"\n+++\nOff we go.\n",
		"json": "{\n\"title\": \"a day out\", \"tags\": [\"sea\", \"sun\"], \"needs\": \">= 1.2\"\n}\nOff we go.\n",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			want.ID = got.ID // the same for each, as the last test shows
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !got.Reads("1.10.0") || got.Reads("1.1.9") {
				t.Errorf("%q reads the wrong versions", got.Needs)
			}
		})
	}
}

func TestSameID(t *testing.T) {
	a, _ := Parse("---\ntitle: x\n---\nbody")
	b, _ := Parse("+++\ntitle = \"x\"\n+++\nbody")
	c, _ := Parse("+++\ntitle = \"x\"\n+++\nanother body")
	if a.ID != b.ID || a.ID == c.ID {
		t.Errorf("the identifiers are %s, %s and %s", a.ID, b.ID, c.ID)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]int{
		"no head at all":                             1,
		"---\ntitle: x\n":                            1,
		"+++\ntitle = \n+++\n":                       1,
		"---\ntags: [a, \"\"]\nneeds: what\n---\nx":  3,
		"---\ntitle: x\nneeds: \"~1 || ^2\"\n---\nx": 0,
	} {
		if _, err := Parse(text); len(multierr.Errors(err)) != want {
			t.Errorf("%q gives %v, want %d errors", text, err, want)
		}
	}
}
