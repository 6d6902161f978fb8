package render

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.invalid/notes/note"
)

func TestHTML(t *testing.T) {
	got, err := HTML(note.Note{Title: "List", Body: "* [x] *one*\n* two[^1]\n\n[^1]: a note\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h1>List</h1>", `<input checked="" disabled="" type="checkbox">`, "<em>one</em>", `class="footnotes"`, "<td>2</td>"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s has no %s", got, want)
		}
	}
}

func TestTable(t *testing.T) {
	got := Table([]note.Note{{Title: "日本語のとても長い題", Body: strings.Repeat("x", 2048)}, {Title: "Short", Body: "x"}}, 20)
	want := "日本語のと…  2.0 KiB\nShort            1 B\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLong renders a long text, as often as ROUNDS says.
func TestLong(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("ROUNDS"))
	text := strings.Repeat("# Head\n\nA *text* with `code`, [links](https://example.invalid) and **more**.\n\n* one\n* two\n\n", 500)
	for range rounds + 1 {
		got, err := HTML(note.Note{Title: "Long", Body: text})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(got, "<strong>more</strong>"); n != 500 {
			t.Fatalf("there are %d of 500", n)
		}
	}
}
